// Checksums against accidental damage: XXH64 for whole files, CRC-32C for framed records. Not for
// adversaries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// Incremental XXH64 with seed 0 (Collet, "xxHash fast digest algorithm", specification 0.1.1).
class Xxh64 {
 public:
  void update(std::span<const std::byte> bytes);
  /// The digest of everything so far; more may follow.
  std::uint64_t value() const;

 private:
  void stripe(const std::byte* bytes);

  std::array<std::uint64_t, 4> lanes_ = {0x60ea27eeadc0b5d6ULL, 0xc2b2ae3d27d4eb4fULL, 0,
                                         0x61c8864e7a143579ULL};
  std::array<std::byte, 32> tail_ = {};
  std::uint64_t total_ = 0;
};

/// XXH64 with seed 0 of the bytes.
std::uint64_t xxh64(std::span<const std::byte> bytes);

/// CRC-32C (Castagnoli), as in RFC 3720, appendix B.4.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace penstock
