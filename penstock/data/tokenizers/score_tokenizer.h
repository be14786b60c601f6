// SentencePiece's byte-pair encoding without its library: neighbours merge into the piece with the
// best score. It is for vocabularies that come without a tokenizer.model.
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
  std::map<std::string, std::string> files;  ///< empty: made from the vocabulary
  /// A U+2581 in text is encoded as this character, not as the space that it means in pieces.
  bool mark_is_text = false;
};

/// Makes the tokenizer of a vocabulary of the kind kSentencePieceBpe.
/// Encoding first finds user-defined pieces. Then each character is a symbol, and neighbours whose
/// texts together are a normal piece merge, the best score first and the leftmost of equal ones. A
/// symbol that is not a piece becomes byte pieces "<0x0A>", or `unknown`; without these, encode()
/// throws Error. Text without U+2581 decodes unchanged if all bytes have pieces. Throws Error for a
/// vocabulary that contradicts itself, and for one in which an unused piece can result from a
/// merge. Source: Kudo and Richardson (2018), arXiv:1808.06226.
std::shared_ptr<const Tokenizer> make_score_tokenizer(const Vocabulary& vocabulary,
                                                      ScoreOptions options = {});

}  // namespace penstock
