// The hashes of shingles that near-duplicate removal has seen, in 4 bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/base/random.h"

namespace penstock {

/// A set of up to `most` hashes, with open addressing in a table of fixed size. The upper bits of a
/// hash give its slot, and the table stores the lower 32 bits. So contains() is wrongly true for a
/// hash outside the set with a probability of some 10^-9 (probes times 2^-32; more from 3 * 10^9
/// hashes on, where upper and lower bits overlap). Memory: 16/3 bytes for each of `most`.
class ShingleSet {
 public:
  explicit ShingleSet(std::uint64_t most) : slots_(most + most / 3 + 1) {}

  bool contains(std::uint64_t hash) const { return slots_[find(hash)] != 0; }
  /// REQUIRES: at most `most` different hashes are inserted.
  void insert(std::uint64_t hash) { slots_[find(hash)] = kept(hash); }

 private:
  /// 0 marks an empty slot.
  static std::uint32_t kept(std::uint64_t hash) {
    const auto low = static_cast<std::uint32_t>(hash);
    return low ? low : 1;
  }
  /// The slot that holds the hash, or else the empty slot for it.
  std::size_t find(std::uint64_t hash) const {
    auto at = static_cast<std::size_t>(random_below(hash, slots_.size()));
    const std::uint32_t wanted = kept(hash);
    while (slots_[at] != 0 && slots_[at] != wanted) at = at + 1 < slots_.size() ? at + 1 : 0;
    return at;
  }
  std::vector<std::uint32_t> slots_;
};

}  // namespace penstock
