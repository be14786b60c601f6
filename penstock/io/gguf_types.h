// What reader and writer of GGUF share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/io/gguf.h"

namespace penstock {

inline constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF", little-endian
inline constexpr std::uint64_t kGgufAlignment = 32;      // where a file does not say otherwise

/// Bytes of a value of that type; 0 for strings and arrays, which have no fixed size.
std::size_t gguf_type_bytes(GgufType type);

/// The next multiple of a power of two.
constexpr std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace penstock
