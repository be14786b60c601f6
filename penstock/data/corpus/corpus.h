// A corpus: a directory that `penstock data prepare` made, opened for reading. It has tokens.bin,
// the tokenizer's files, and corpus.json, a readable record of the preparation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/split.h"
#include "penstock/data/corpus/token_file.h"
#include "penstock/data/tokenizer.h"

namespace penstock {

inline constexpr const char* kTokensFile = "tokens.bin";
inline constexpr const char* kManifestFile = "corpus.json";

struct TextCount {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;  // end-of-document ids included
  std::int64_t bytes = 0;   // of text
};

/// Tokens, documents, domains and tokenizer of one corpus. Cheap to copy. Thread-safe.
class Corpus {
 public:
  /// Throws Error if a file is missing, is damaged, or belongs to another tokenizer.
  static Corpus open(const std::string& path);

  const std::string& path() const;
  const TokenFile& file() const;
  const Tokenizer& tokenizer() const;
  /// "bytes", "bpe:4096", ...
  std::string tokenizer_spec() const;
  std::int64_t vocab_size() const;
  const std::vector<std::string>& domains() const;
  /// Documents, tokens and bytes of a split, of all domains or of one.
  TextCount count(Split split) const;
  TextCount count(Split split, std::size_t domain) const;
  /// Bytes of text that each token id stands for; 0 for end-of-document.
  std::span<const std::int32_t> token_bytes() const;
  /// A hash of the tokens, tables and tokenizer: 16 hexadecimal digits. Equal corpora have equal
  /// hashes.
  std::string content_hash() const;

 private:
  struct State;
  explicit Corpus(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace penstock
