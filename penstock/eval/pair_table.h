// A hash table of pairs, for counting n-grams. It is not a general container: pairs cannot be
// removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/base/random.h"

namespace penstock {

/// Maps (context id, token) to a number above 0. Uses open addressing, because std::unordered_map
/// takes three times as long.
class PairTable {
 public:
  /// The pair's value; 0 if the table does not have the pair.
  std::uint32_t find(std::uint32_t context, std::uint32_t token) const {
    return cells_[place(key(context, token))].value;
  }
  /// Adds the pair with value 0 if the table does not have it. The reference is valid until the
  /// next call.
  std::uint32_t& at(std::uint32_t context, std::uint32_t token) {
    if (10 * used_ >= 6 * cells_.size()) grow();
    Cell& cell = cells_[place(key(context, token))];
    if (cell.key == kFree) {
      cell.key = key(context, token);
      ++used_;
    }
    return cell.value;
  }
  /// Calls visit(context, value) for each pair.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Cell& cell : cells_)
      if (cell.key != kFree) visit(static_cast<std::uint32_t>(cell.key >> 32), cell.value);
  }

 private:
  static constexpr std::uint64_t kFree = ~0ULL;  // ids and tokens stay below 2³² − 1
  struct Cell {
    std::uint64_t key = kFree;
    std::uint32_t value = 0;
  };
  static std::uint64_t key(std::uint32_t context, std::uint32_t token) {
    return static_cast<std::uint64_t>(context) << 32 | token;
  }
  std::size_t place(std::uint64_t key) const {
    std::size_t i = mix64(key) & (cells_.size() - 1);
    while (cells_[i].key != key && cells_[i].key != kFree) i = (i + 1) & (cells_.size() - 1);
    return i;
  }
  void grow() {
    std::vector<Cell> old(2 * cells_.size());
    old.swap(cells_);
    for (const Cell& cell : old)
      if (cell.key != kFree) cells_[place(cell.key)] = cell;
  }

  std::vector<Cell> cells_ = std::vector<Cell>(64);
  std::size_t used_ = 0;
};

}  // namespace penstock
