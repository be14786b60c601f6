// Tokenizers by the names that --tokenizer takes: bytes, BPE or unigram trained through
// SentencePiece, and those of published protocols, bytes by frequency and words.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// What make_tokenizer makes.
inline constexpr const char* kTokenizerKinds =
    "bytes, bpe:N or unigram:N (N: the vocabulary's size), byte-vocabulary, "
    "byte-vocabulary-no-newlines or words";

/// Whether `spec` begins as one of kTokenizerKinds, whatever it says of the size.
bool is_tokenizer_kind(const std::string& spec);

/// Makes the tokenizer that `spec` names, one of kTokenizerKinds. All but the first learn from
/// `texts` (bpe and unigram from at most about 10 MB of them, evenly spread); the same texts give
/// the same tokenizer. Throws Error for an unknown spec, and for a vocabulary that is too large or
/// small for the text.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& spec,
                                                std::span<const std::string_view> texts,
                                                bool end_of_document = true);

/// What preparing a corpus must know of a tokenizer before the texts are read.
struct TokenizerTraits {
  /// Has an id to end documents with, if asked to.
  bool ends_documents = true;
  /// Every id stands for one byte, so that text may be cut anywhere.
  bool bytes = false;
  /// Text is to be cut between lines alone.
  bool lines = false;
  /// The vocabulary is that of all splits, as the published code has it.
  bool all_splits = false;
};

/// Throws Error unless make_tokenizer knows the spec.
TokenizerTraits tokenizer_traits(const std::string& spec);

}  // namespace penstock
