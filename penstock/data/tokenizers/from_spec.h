// Makes tokenizers from the values of --tokenizer: bytes, BPE or unigram trained through
// SentencePiece, and those of published protocols, bytes by frequency and words.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// The specs that make_tokenizer takes.
inline constexpr const char* kTokenizerKinds =
    "bytes, bpe:N or unigram:N (N: the vocabulary's size), byte-vocabulary, "
    "byte-vocabulary-no-newlines or words";

/// Whether `spec` begins with one of kTokenizerKinds; ignores the size.
bool is_tokenizer_kind(const std::string& spec);

/// Makes the tokenizer that `spec` names, one of kTokenizerKinds. All but "bytes" are made from
/// `texts` (bpe and unigram from at most about 10 MB of them, evenly spread); the same texts give
/// the same tokenizer. Throws Error for an unknown spec, and for a vocabulary that is too large or
/// small for the text.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& spec,
                                                std::span<const std::string_view> texts,
                                                bool end_of_document = true);

/// Properties of a tokenizer that preparing a corpus needs before the texts are read.
struct TokenizerTraits {
  /// The tokenizer can have an id that ends documents.
  bool ends_documents = true;
  /// Every id stands for one byte, so that text may be cut anywhere.
  bool bytes = false;
  /// Text may be cut only between lines.
  bool lines = false;
  /// The vocabulary is made from all splits, as in the published code.
  bool all_splits = false;
};

/// The traits of the tokenizer that `spec` names. Throws Error for an unknown spec.
TokenizerTraits tokenizer_traits(const std::string& spec);

}  // namespace penstock
