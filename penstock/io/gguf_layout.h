// Constants that the reader and the writer of GGUF share: the magic number and the alignment.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF", little-endian
inline constexpr std::uint64_t kGgufAlignment = 32;      // the default

/// `offset` rounded up to a multiple of `alignment`, a power of two.
constexpr std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace penstock
