// Grouping attention heads, worked by hand: pairs, larger groups, fewer and more routers than
// experts, heads that share a key, and what cannot be grouped.
#include "penstock/convert/upcycle/head_groups.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <set>

#include "penstock/base/error.h"

namespace penstock {
namespace {

using Groups = std::vector<HeadGroup>;

/// Unit vectors at these angles, in degrees. Their cosines are those of the angles' differences.
at::Tensor at_angles(const std::vector<double>& degrees) {
  const at::Tensor radians = torch::tensor(degrees, at::kDouble) * (3.14159265358979 / 180);
  return at::stack({radians.cos(), radians.sin()}, 1).to(at::kFloat);
}

TEST(HeadGroups, SimilarityIsTheCosine) {
  const at::Tensor keys = torch::tensor({3., 0., 0., 2., -1., 0., 1., 1., 0., 0.}).view({5, 2});
  const at::Tensor map = key_similarity(keys);
  const double half = std::sqrt(0.5);
  const at::Tensor expected = torch::tensor({1.,   0.,   -1.,   half,  0.,  //
                                             0.,   1.,   0.,    half,  0.,  //
                                             -1.,  0.,   1.,    -half, 0.,  //
                                             half, half, -half, 1.,    0., 0., 0., 0., 0., 1.},
                                            at::kDouble)
                                  .view({5, 5});
  EXPECT_LT((map - expected).abs().max().item<double>(), 1e-7);
}

/// Differences: 0-1 10°, 0-2 15°, 1-2 5°; head 3 is at 90°. The best pair is 1-2; 0-3 is left.
TEST(HeadGroups, PairsAreTheBestOfWhatIsLeft) {
  const HeadGroups groups = group_heads(at_angles({0, 10, 15, 90}), 2, 2);
  EXPECT_EQ(groups.queries, (Groups{{0, 3}, {1, 2}}));
  EXPECT_EQ(groups.keys, groups.queries);
}

/// 0-1, 1-2 and 2-3 are equally similar. The pair with the lowest heads is taken first.
TEST(HeadGroups, TiesGoToLowerHeads) {
  const at::Tensor keys = torch::eye(4);
  EXPECT_EQ(group_heads(keys, 2, 2).queries, (Groups{{0, 1}, {2, 3}}));
}

/// Groups of three. The best pair is 2-3 (1° apart). Of the rest, 4 (at 8°, mean distance 7.5°) is
/// nearer to both than 1 (at -20°). 0, 1 and 5 are left.
TEST(HeadGroups, LargerGroupsGrowByMeanSimilarity) {
  const HeadGroups groups = group_heads(at_angles({170, -20, 0, 1, 8, 120}), 2, 2);
  EXPECT_EQ(groups.queries, (Groups{{0, 1, 5}, {2, 3, 4}}));
}

TEST(HeadGroups, AsManyRoutersAsHeadsAreTheHeads) {
  const HeadGroups groups = group_heads(at_angles({0, 20, 50, 90}), 4, 4);
  EXPECT_EQ(groups.queries, (Groups{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(groups.keys, groups.queries);
}

/// m = 2 of 4 heads and 4 keys (n/m = 2 copies of each head). The second grouping must not repeat a
/// group. First come 0-1 (5°) and 2-3; then the best remaining pair, 1-2 (25°), and 0-3.
TEST(HeadGroups, FewerRoutersThanKeysGroupTheHeadsAgain) {
  const HeadGroups groups = group_heads(at_angles({0, 5, 30, 37}), 2, 4);
  EXPECT_EQ(groups.queries, (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(groups.keys, (Groups{{0, 1}, {2, 3}, {0, 3}, {1, 2}}));
}

/// Read literally, m = 2 of 4 heads and 4 keys means pairs of the heads 0, 1, 2, 3, 0, 1, 2, 3. A
/// copy is nearer to its head than any other head. With 6 heads and 4 keys the groups have three
/// heads. 4 and 5 are 1° apart, but copies are 0° apart, so 0, 0' comes first and takes 1 (10°),
/// because 1' is no nearer. 2, 2' takes 3 (20° and 30°); 4, 4' takes 5; 1', 3' and 5' are left.
TEST(HeadGroups, LiteralCopiesOfAHeadComeFirst) {
  const HeadGroups pairs = group_heads(at_angles({0, 5, 30, 37}), 2, 4, KeyGrouping::literal);
  EXPECT_EQ(pairs.queries, (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(pairs.keys, (Groups{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
  const HeadGroups threes =
      group_heads(at_angles({0, 10, 100, 110, 200, 201}), 2, 4, KeyGrouping::literal);
  EXPECT_EQ(threes.queries, (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(threes.keys, (Groups{{0, 0, 1}, {1, 3, 5}, {2, 2, 3}, {4, 4, 5}}));
}

/// A group of one head repeats its key n/m times, which distinct groups refuse. With as many keys
/// as routers nothing is duplicated.
TEST(HeadGroups, LiteralKeysMayBeEqual) {
  const at::Tensor keys = at_angles({0, 5, 30, 37});
  EXPECT_EQ(group_heads(keys, 4, 8, KeyGrouping::literal).keys,
            (Groups{{0}, {0}, {1}, {1}, {2}, {2}, {3}, {3}}));
  EXPECT_EQ(group_heads(keys, 2, 2, KeyGrouping::literal).keys, group_heads(keys, 2, 2).keys);
}

/// The paper's m = 4, n = 8 with 16 heads: 8 groups of 4. Every head is in two groups, no group has
/// a head twice, and no two groups are equal.
TEST(HeadGroups, ThePublishedVariantsHaveNoTiedKeys) {
  torch::manual_seed(1);
  const at::Tensor keys = torch::randn({16, 8});
  for (const auto& [routers, count] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 8}, {4, 8}, {8, 8}, {16, 16}}) {
    const HeadGroups groups = group_heads(keys, routers, count);
    EXPECT_EQ(static_cast<std::int64_t>(groups.queries.size()), routers);
    ASSERT_EQ(static_cast<std::int64_t>(groups.keys.size()), count);
    EXPECT_EQ(std::set<HeadGroup>(groups.keys.begin(), groups.keys.end()).size(),
              groups.keys.size());
    std::vector<std::int64_t> uses(16);
    for (const HeadGroup& group : groups.keys) {
      EXPECT_EQ(static_cast<std::int64_t>(group.size()), 16 / routers);
      EXPECT_EQ(std::set<std::int64_t>(group.begin(), group.end()).size(), group.size());
      for (const std::int64_t head : group) ++uses[static_cast<std::size_t>(head)];
    }
    EXPECT_EQ(uses, std::vector<std::int64_t>(16, count / routers));
  }
}

/// Two heads share each key (grouped-query attention). The groups {0,2} and {1,3} would have equal
/// keys.
TEST(HeadGroups, HeadsThatShareAKeyCountAsOne) {
  const at::Tensor keys = at_angles({0, 20, 50, 90}).repeat_interleave(2, 0);
  const HeadGroups pairs = group_heads(keys, 4, 4);
  EXPECT_EQ(pairs.keys, (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  const HeadGroups again = group_heads(keys, 4, 8);
  std::set<std::multiset<std::int64_t>> contents;
  for (const HeadGroup& group : again.keys) contents.insert({group[0] / 2, group[1] / 2});
  EXPECT_EQ(contents.size(), 8U);
  // With one key per head the keys cannot differ, but the groups do.
  EXPECT_EQ(group_heads(keys, 8, 8).keys.size(), 8U);
}

TEST(HeadGroups, MoreRoutersThanHeadsCutThem) {
  EXPECT_EQ(head_parts(16, 64, 8), 1);
  EXPECT_EQ(head_parts(16, 64, 16), 1);
  EXPECT_EQ(head_parts(16, 64, 32), 2);
  const at::Tensor cut = split_heads(torch::arange(8.).view({2, 4}), 2);
  EXPECT_TRUE(cut.equal(torch::arange(8.).view({4, 2})));
}

TEST(HeadGroups, WhatCannotBeIsRefused) {
  EXPECT_THROW(head_parts(16, 64, 6), Error);   // 6 does not divide 16
  EXPECT_THROW(head_parts(16, 64, 48), Error);  // 48 / 16 = 3 does not divide 64
  const at::Tensor keys = at_angles({0, 5, 30, 37});
  EXPECT_THROW(group_heads(keys, 2, 3), Error);  // 3 is no multiple of 2
  EXPECT_THROW(group_heads(keys, 4, 2), Error);  // fewer keys than routers
  EXPECT_THROW(group_heads(keys, 4, 8), Error);  // a group of one head, twice: tied
  EXPECT_THROW(group_heads(keys, 1, 2), Error);  // the group of all heads, twice: tied
  EXPECT_THROW(group_heads(keys, 2, 8), Error);  // there are only six pairs
}

}  // namespace
}  // namespace penstock
