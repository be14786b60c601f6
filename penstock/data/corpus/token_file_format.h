// The bytes of a token file, shared by its reader and its writer.
#pragma once

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "penstock/base/checksum.h"

namespace penstock::token_file {

inline constexpr std::array<char, 8> kMagic = {'P', 'S', 'T', 'K', 'T', 'O', 'K', '\n'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kShardedVersion = 2;
inline constexpr std::size_t kMostShards = 10000;  // each is mapped; a process has 65,530 mappings
inline constexpr std::uint32_t kByteOrder = 0x01020304;

/// The header, at offset 0. After it come the tokens, padded with zeros to 8 bytes, then the
/// documents, then the domain names (u32 length and UTF-8 bytes each). In kShardedVersion there are
/// no tokens, and the names are followed by the number of tokens of each shard, u64.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t byte_order = kByteOrder;
  std::uint32_t token_width = 2;
  std::uint32_t vocab_size = 0;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t domains = 0;
  std::uint64_t names_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t tables_hash = 0;   // XXH64 of documents and names
  std::uint64_t content_hash = 0;  // XXH64 of the tokens followed by tables_hash
  std::uint64_t header_hash = 0;   // XXH64 of everything above
};
static_assert(sizeof(Header) == 88);

/// One entry of the documents table.
struct Document {
  std::uint64_t begin, tokens, bytes;
  std::uint32_t domain, split;
};
static_assert(sizeof(Document) == 32);

/// The hash of tokens and tables.
/// @param tokens  the hash of all tokens in order; is updated with the tables' hash
inline std::uint64_t content_hash(Xxh64& tokens, std::uint64_t tables_hash) {
  tokens.update(std::as_bytes(std::span(&tables_hash, 1)));
  return tokens.value();
}

/// The file of shard i (from 0) of n, beside the token file: "tokens-00001-of-00004.bin" for
/// "tokens.bin". A shard holds tokens and nothing else.
inline std::filesystem::path shard_path(const std::filesystem::path& token_file, std::size_t i,
                                        std::size_t n) {
  return token_file.parent_path() / fmt::format("{}-{:05}-of-{:05}{}", token_file.stem().string(),
                                                i + 1, n, token_file.extension().string());
}

/// Whether `name` is a possible name of a shard of the token file.
inline bool is_shard_name(const std::filesystem::path& token_file, const std::string& name) {
  const std::size_t at = token_file.stem().string().size() + 1, digits = 5;
  std::size_t i = 0, n = 0;
  if (name.size() < at + digits) return false;
  std::from_chars(name.data() + at, name.data() + name.size(), i);
  const std::size_t of = name.find("-of-", at);
  if (of == std::string::npos) return false;
  std::from_chars(name.data() + of + 4, name.data() + name.size(), n);
  return i >= 1 && i <= n && name == shard_path(token_file.filename(), i - 1, n).string();
}

}  // namespace penstock::token_file
