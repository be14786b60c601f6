// Counter-based random numbers: each draw is a pure function of (seed, stream, index), so resuming
// needs no saved state. They are not for cryptography.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock {

/// SplitMix64's finaliser: a bijection on 64 bits with good avalanche (Steele et al., 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The index-th 64-bit draw of a stream.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix64(mix64(mix64(seed) ^ stream) + index);
}

/// A draw below `bound` (> 0), by multiply-shift; the bias is below bound / 2^64.
constexpr std::uint64_t random_below(std::uint64_t bits, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

/// Fisher–Yates with draws (seed, stream, i).
template <class T>
void shuffle(std::vector<T>& items, std::uint64_t seed, std::uint64_t stream) {
  for (std::size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[random_below(random_bits(seed, stream, i), i)]);
}

}  // namespace penstock
