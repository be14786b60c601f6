// The bytes of a token file, shared by its reader and its writer.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "penstock/base/checksum.h"

namespace penstock::token_file {

inline constexpr std::array<char, 8> kMagic = {'P', 'S', 'T', 'K', 'T', 'O', 'K', '\n'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kByteOrder = 0x01020304;

/// At offset 0. Tokens follow at once, padded with zeros to 8 bytes; then the documents, then the
/// domain names (u32 length and UTF-8 bytes each), then nothing.
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

inline std::uint64_t content_hash(std::span<const std::byte> tokens, std::uint64_t tables_hash) {
  Xxh64 hash;
  hash.update(tokens);
  hash.update(std::as_bytes(std::span(&tables_hash, 1)));
  return hash.value();
}

}  // namespace penstock::token_file
