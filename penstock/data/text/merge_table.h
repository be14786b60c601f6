// Byte-pair merging: two neighbouring symbols become one, the pair with the lowest order first.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "penstock/data/token_id.h"

namespace penstock {

/// Which pairs merge, into which symbol, and in which order.
class MergeTable {
 public:
  struct Merge {
    double order = 0;  ///< the lowest is merged first; of equal ones, the leftmost
    TokenId result = -1;
  };

  void reserve(std::size_t merges) { merges_.reserve(merges); }
  /// Adds a merge; replaces an earlier merge of the same pair.
  void add(TokenId left, TokenId right, Merge merge) { merges_[key(left, right)] = merge; }
  /// The merge of the pair, or null.
  const Merge* find(TokenId left, TokenId right) const {
    const auto it = merges_.find(key(left, right));
    return it == merges_.end() ? nullptr : &it->second;
  }
  /// Merges until no pair of the table is left. A negative symbol never merges. Cost: O(n log n)
  /// for n symbols. Source: Sennrich et al. (2016), arXiv:1508.07909.
  void apply(std::vector<TokenId>& symbols) const;

 private:
  static std::uint64_t key(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  void apply_to_few(std::vector<TokenId>& symbols) const;
  void apply_to_many(std::vector<TokenId>& symbols) const;

  struct Hash {
    std::size_t operator()(std::uint64_t x) const {
      x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15u;
      return x ^ (x >> 29);
    }
  };
  std::unordered_map<std::uint64_t, Merge, Hash> merges_;
};

}  // namespace penstock
