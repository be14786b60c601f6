// Checksums against accidental damage: XXH64 for whole files, CRC-32C for framed records. They do
// not protect against adversaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace penstock {

/// Incremental XXH64 with seed 0, by libxxhash.
class Xxh64 {
 public:
  Xxh64();
  ~Xxh64();
  void update(std::span<const std::byte> bytes);
  /// The digest of all bytes so far; more may be added.
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH64 with seed 0 of the bytes.
std::uint64_t xxh64(std::span<const std::byte> bytes);

/// CRC-32C (Castagnoli), as in RFC 3720, appendix B.4.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace penstock
