// Groups attention heads for routers and keys by Router Upcycling's rules, for any number of
// routers, keys and heads. It uses only the heads' mean keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock {

/// The grouping of heads for keys if there are more keys than routers (m < n).
enum class KeyGrouping {
  distinct,  ///< heads are regrouped for every further m keys, no group twice: our reading
  /// The paper's rule word for word: every head is duplicated n/m times, and then heads are merged
  /// by similarity, copies of a head first. A key then has fewer heads, each several times. Keys
  /// are equal if n exceeds the number of heads.
  literal
};
constexpr std::array<std::string_view, 2> words(KeyGrouping) { return {"distinct", "literal"}; }

/// The heads of one router or key, ascending.
using HeadGroup = std::vector<std::int64_t>;

/// The heads of one layer's routers and keys. Heads are the attention layer's, or equal parts of
/// them if there are more routers than heads.
struct HeadGroups {
  std::int64_t parts = 1;          ///< parts that each attention head is cut into
  std::vector<HeadGroup> queries;  ///< m groups, ordered by lowest head
  std::vector<HeadGroup> keys;     ///< one per key; the first m equal `queries` unless literal
};

/// cos(K_a, K_b) of the heads' mean keys.
/// @param keys [H, w].  @return [H, H] f64; 0 if a key is zero, 1 on the diagonal
at::Tensor key_similarity(const at::Tensor& keys);

/// Cuts each head in `parts`: [H, w] to [H·parts, w / parts].
at::Tensor split_heads(const at::Tensor& keys, std::int64_t parts);

/// The number of parts that each of H heads of width w is cut into for m routers. Throws Error if m
/// neither divides H nor is a multiple of H that divides H·w.
std::int64_t head_parts(std::int64_t heads, std::int64_t width, std::int64_t routers);

/// Groups the heads by the similarity of their mean keys.
///
/// Queries: m groups of H/m heads. The most similar pair of remaining heads starts a group. The
/// head with the highest mean similarity to the group joins it until the group is full. Then the
/// next group starts. Groups of two are thus greedy best pairs. Ties go to lower heads. Keys: the
/// same groups. If there are more keys than routers (count = n > m), the heads are grouped again by
/// the same rule for each further m keys. No two groups have the same keys, since those would be
/// tied experts; heads that share a key (grouped-query attention) count as one head here. If no
/// such grouping is found, groups differ only in heads, and keys may be equal.
/// KeyGrouping::literal: the keys are n groups, by the same rule, of all heads duplicated count/m
/// times; groups may repeat. The queries are as above.
/// Source: Router Upcycling, sections 3.2 and 5.2.1; the order in which heads join and the rule for
/// ties are our choice.
///
/// @param keys     [H, w], mean keys, H repeated to the query heads; cut by split_heads
/// @param routers  m, a divisor of H
/// @param count    number of keys, a multiple of m
/// Throws Error if count is not a multiple of m, or if there are fewer than `count` different
/// groups.
HeadGroups group_heads(const at::Tensor& keys, std::int64_t routers, std::int64_t count,
                       KeyGrouping grouping = KeyGrouping::distinct);

}  // namespace penstock
