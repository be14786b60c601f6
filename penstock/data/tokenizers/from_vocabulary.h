// The tokenizer that a vocabulary describes, whichever format the vocabulary came from.
#pragma once

#include <memory>

#include "penstock/data/tokenizer.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

/// Makes the tokenizer that the vocabulary describes: its ids are those of the tokenizer that gave
/// it, but for what no vocabulary tells: U+2581 in text is the space that it stands for in pieces
/// where `add_space_prefix` holds, and text otherwise. Pieces of the user are found in text before
/// anything else. kSentencePieceUnigram takes SentencePiece's library. Throws Error where the
/// description contradicts itself.
std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace penstock
