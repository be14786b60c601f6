// The tokens of a corpus while it is prepared, on disk instead of in memory. token_file_writer.h
// writes them to the token file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/base/unnamed_file.h"
#include "penstock/data/tokenizer.h"

namespace penstock {

/// Token ids in an unnamed file. Memory: a block of 1 MB.
class TokenSpool {
 public:
  /// @param folder  where the file is made; it takes 2 or 4 bytes per token
  /// Throws Error if no file can be made there.
  TokenSpool(std::filesystem::path folder, std::uint32_t vocab_size);

  std::uint32_t vocab_size() const { return vocab_size_; }
  /// Bytes per token: 2 if the vocabulary allows it, else 4.
  std::uint32_t token_width() const { return vocab_size_ <= 65536 ? 2 : 4; }
  std::uint64_t tokens() const { return tokens_; }
  /// Appends tokens. REQUIRES: the ids are in the vocabulary. Throws DiskFullError if the disk is
  /// full.
  void add(std::span<const TokenId> ids);
  /// Calls visit() with the little-endian bytes of all tokens, block by block.
  void read(const std::function<void(Bytes)>& visit);

 private:
  void flush();

  UnnamedFile file_;
  std::uint32_t vocab_size_;
  std::uint64_t tokens_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace penstock
