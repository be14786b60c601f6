// Groups attention heads for routers and keys by Router Upcycling's rules, for any number of
// routers, keys and heads. It knows heads by their mean keys alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock {

/// The grouping of heads for keys if there are more keys than routers (m < n).
enum class KeyGrouping {
  distinct,  ///< grouped anew for every further m keys, no group twice: our reading
  /// As the paper's rule reads word by word: every head is there n/m times before heads are merged
  /// by their similarity, under which copies of a head come first. A key then has fewer heads, each
  /// several times, and keys are equal where n exceeds the number of heads.
  literal
};
constexpr std::array<std::string_view, 2> words(KeyGrouping) { return {"distinct", "literal"}; }

/// Heads of one router or key, ascending.
using HeadGroup = std::vector<std::int64_t>;

/// The heads of one layer's routers and keys. Heads are the attention layer's, or equal parts of
/// them if there are more routers than heads.
struct HeadGroups {
  std::int64_t parts = 1;          ///< parts that each attention head is cut into
  std::vector<HeadGroup> queries;  ///< m groups, by lowest head
  std::vector<HeadGroup> keys;     ///< of each key; the first m are the queries' unless literal
};

/// cos(K_a, K_b) of the heads' mean keys.
/// @param keys [H, w].  @return [H, H] f64; 0 where a key vanishes, 1 on the diagonal
at::Tensor key_similarity(const at::Tensor& keys);

/// Cuts each head in `parts`: [H, w] to [H·parts, w / parts].
at::Tensor split_heads(const at::Tensor& keys, std::int64_t parts);

/// Into how many parts each of H heads of width w is cut for m routers; throws Error where m
/// neither divides H nor is a multiple of it that divides H·w evenly.
std::int64_t head_parts(std::int64_t heads, std::int64_t width, std::int64_t routers);

/// Groups the heads by the similarity of their mean keys.
///
/// Queries: m groups of H/m heads. The best pair that is left begins a group, the head with the
/// highest mean similarity to the group joins it until it is full, and so on: for pairs, the
/// greedy best pair. Ties go to lower heads.
/// Keys: the same groups, and where there are more keys than routers (key = n > m), the heads once
/// more for each further m keys, grouped by the same rule. No group's keys are another's, which
/// would be tied experts; heads that share a key (grouped-query attention) count as one there.
/// Where no such grouping is found, groups differ in heads alone, and keys may be equal.
/// KeyGrouping::literal: the keys are n groups, by the same rule, of all heads count/m times over,
/// without regard to what groups repeat; the queries as above.
/// Source: Router Upcycling, sections 3.2 and 5.2.1; its order of joining and ties are our choice.
///
/// @param keys     [H, w], mean keys, H repeated to the query heads; cut by split_heads
/// @param routers  m, a divisor of H
/// @param count    number of keys, a multiple of m
/// Throws Error where count is no multiple of m, or there are not so many different groups.
HeadGroups group_heads(const at::Tensor& keys, std::int64_t routers, std::int64_t count,
                       KeyGrouping grouping = KeyGrouping::distinct);

}  // namespace penstock
