// Makes a tokenizer from a vocabulary of any format.
#pragma once

#include <memory>

#include "penstock/data/tokenizer.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

/// Makes the tokenizer that the vocabulary describes. Its ids are those of the original tokenizer,
/// with one possible difference: a vocabulary does not say what U+2581 in text means, so here it is
/// a space if `add_space_prefix`, else plain text. User-defined pieces are found before all others.
/// kSentencePieceUnigram needs SentencePiece's library. Throws Error if the description contradicts
/// itself.
std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace penstock
