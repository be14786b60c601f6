// The tree of gradients: its order of sums, and that ranks get the bits of one process.
#include "penstock/train/gradient_tree.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dist/ranks.h"

namespace penstock {
namespace {

using Gradients = GradientTree::Gradients;

/// Two tensors whose sums depend on the order of addition.
Gradients gradients_of(std::size_t part) {
  const auto seed = static_cast<double>(part);
  return {torch::arange(1000, at::kFloat).add(seed).mul(1.7).sin().mul(std::exp(seed)),
          torch::full({2, 3}, 1.0 / (3 + seed), at::kFloat)};
}

Gradients sum_of(std::size_t parts, const dist::ProcessGroup& group) {
  GradientTree tree(parts, group);
  const PartRange mine = parts_of_rank(parts, group.rank(), group.size());
  for (std::size_t part = mine.first; part < mine.last; ++part) tree.add(gradients_of(part));
  return std::move(tree).sum(gradients_of(0));
}

void expect_same_bits(const Gradients& found, const Gradients& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
}

TEST(GradientTree, AddsPairsOfPairs) {
  const auto part = [](std::size_t i) { return gradients_of(i)[0]; };
  const at::Tensor six = ((part(0) + part(1)) + (part(2) + part(3))) + (part(4) + part(5));
  EXPECT_TRUE(torch::equal(sum_of(6, {})[0], six));
  const at::Tensor three = (part(0) + part(1)) + part(2);
  EXPECT_TRUE(torch::equal(sum_of(3, {})[0], three));
  const at::Tensor in_turn = ((((part(0) + part(1)) + part(2)) + part(3)) + part(4)) + part(5);
  EXPECT_FALSE(torch::equal(in_turn, six));  // else this test could not fail
}

TEST(GradientTree, GivesPartsToRanksInEqualPieces) {
  EXPECT_EQ(parts_of_rank(8, 0, 1), (PartRange{0, 8}));
  EXPECT_EQ(parts_of_rank(8, 3, 4), (PartRange{6, 8}));
  for (std::size_t parts = 1; parts < 20; ++parts) {
    std::size_t next = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const PartRange mine = parts_of_rank(parts, rank, 4);
      EXPECT_EQ(mine.first, next);
      EXPECT_LE(mine.size(), parts / 4 + 1);
      next = mine.last;
    }
    EXPECT_EQ(next, parts);
  }
}

TEST(GradientTree, HoldsFewCopies) {
  EXPECT_EQ(GradientTree::copies(1, 1), 1U);
  EXPECT_EQ(GradientTree::copies(2, 1), 2U);
  EXPECT_EQ(GradientTree::copies(8, 1), 4U);
  EXPECT_EQ(GradientTree::copies(8, 4), 2U);
  EXPECT_EQ(GradientTree::copies(8, 8), 1U);
}

TEST(GradientTree, CountsWhatARankSends) {
  EXPECT_EQ(GradientTree::traffic(8, 1, 1000).nodes, 0);
  EXPECT_EQ(GradientTree::traffic(8, 4, 1000).nodes, 750);  // one node of two parts
  EXPECT_EQ(GradientTree::traffic(8, 4, 1000).sums, 750);
  EXPECT_EQ(GradientTree::traffic(6, 2, 1000).nodes, 1000);  // two nodes: parts 0-1 and 2
}

TEST(GradientTree, SumsAreBitwiseThoseOfOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  for (const std::size_t parts : {1, 2, 3, 4, 6, 7, 8, 12}) {
    const Gradients alone = sum_of(parts, {});
    for (const int ranks : {2, 3, 4})
      testing::on_ranks(ranks, [&](const dist::ProcessGroup& group) {
        expect_same_bits(sum_of(parts, group), alone);
      });
  }
}

}  // namespace
}  // namespace penstock
