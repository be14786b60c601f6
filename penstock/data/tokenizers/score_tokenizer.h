// SentencePiece's byte-pair encoding without its library: neighbours merge into the piece of the
// best score. For vocabularies that come without a tokenizer.model.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

struct ScoreOptions {
  std::string spec = "sentencepiece-bpe";
  std::string origin = "the vocabulary";     ///< stands for the file in errors
  std::map<std::string, std::string> files;  ///< empty: a tokenizer.model is written
  /// A U+2581 in text is itself, as bytes, and not the space that it stands for in pieces.
  bool mark_is_text = false;
};

/// @param vocabulary  of the kind kSentencePieceBpe
/// Each character that is a piece, or part of one, is a symbol; of neighbours whose texts together
/// are a normal piece, those of the best score merge first, of equals the leftmost. What is left
/// without a piece becomes byte pieces "<0x0A>", or `unknown`. Pieces of the user are found first.
/// Text without U+2581 comes back as it was where all bytes have pieces; encode() throws Error for
/// what has none. Throws Error for a vocabulary that contradicts itself, and one where an unused
/// piece can be merged into. Source: Kudo and Richardson (2018), arXiv:1808.06226.
std::shared_ptr<const Tokenizer> make_score_tokenizer(const Vocabulary& vocabulary,
                                                      ScoreOptions options = {});

}  // namespace penstock
