// The token file: all tokens of a corpus, memory-mapped, with its documents and domain names. The
// tokens may be in shards beside it. This code does not know what a token means. docs/formats.md
// describes the layout; token_file_writer.h writes the file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/split.h"

namespace penstock {

/// A document: tokens [begin, begin + tokens), which encode `bytes` bytes of text.
struct DocumentRecord {
  std::uint64_t begin = 0, tokens = 0, bytes = 0;
  std::uint32_t domain = 0;
  Split split = Split::kTrain;
};

/// A token file, opened for reading. Cheap to copy: copies share the mappings. Thread-safe.
class TokenFile {
 public:
  /// Maps the file and its shards and checks header, tables and sizes.
  /// Throws Error with the file's name if a file is missing, truncated, damaged or of another
  /// format. Cost: reads the tables, not the tokens.
  static TokenFile open(const std::string& path);

  const std::string& path() const;
  std::int64_t vocab_size() const;
  std::int64_t tokens() const;
  /// Bytes per stored token: 2 or 4.
  int token_width() const;
  /// In file order: contiguous, and grouped train, validation, test.
  std::span<const DocumentRecord> documents() const;
  const std::vector<std::string>& domains() const;
  /// First token and number of tokens of a split; it may be empty.
  struct Range {
    std::int64_t begin = 0, tokens = 0;
  };
  Range range(Split split) const;
  /// Number of shard files that hold the tokens; 0 if the token file itself holds them.
  std::size_t shards() const;
  /// Index of the document that holds the token. REQUIRES: 0 <= token < tokens(). Cost:
  /// log(documents).
  std::size_t document_at(std::int64_t token) const;
  /// Copies tokens [begin, begin + out.size()) widened to 64 bits.
  /// Throws Error for a token id that is not below vocab_size(), because the file is damaged, and
  /// if the file was changed since it was opened. Cost: a call of stat. If only the modification
  /// time of the file or its shards has changed, all tokens are read once.
  void read(std::int64_t begin, std::span<std::int64_t> out) const;
  /// The hash of tokens and tables, as stored in the header.
  std::uint64_t content_hash() const;
  /// Reads every token. Throws Error if the content hash does not match.
  void verify() const;

 private:
  struct Mapped;
  explicit TokenFile(std::shared_ptr<const Mapped> mapped) : mapped_(std::move(mapped)) {}
  std::shared_ptr<const Mapped> mapped_;
};

}  // namespace penstock
