// The tree of gradients: its order of sums, and that ranks which exchange units get the bits of one
// process.
#include "penstock/train/ranks/gradient_tree.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "penstock/train/ranks/unit_exchange.h"
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

/// The sum on one rank of the parts' gradients, which come in the order `order`.
Gradients sum_of(std::size_t parts, const std::vector<std::size_t>& order) {
  GradientTree tree(parts);
  for (const std::size_t part : order)
    tree.add({.range = {part, part + 1}, .gradients = gradients_of(part)});
  EXPECT_EQ(tree.nodes().size(), 1U);
  return tree.take().front().gradients;
}

Gradients sum_of(std::size_t parts) {
  std::vector<std::size_t> order(parts);
  std::iota(order.begin(), order.end(), 0);
  return sum_of(parts, order);
}

void expect_same_bits(const Gradients& found, const Gradients& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
}

TEST(GradientTree, AddsPairsOfPairs) {
  const auto part = [](std::size_t i) { return gradients_of(i)[0]; };
  const at::Tensor six = ((part(0) + part(1)) + (part(2) + part(3))) + (part(4) + part(5));
  EXPECT_TRUE(torch::equal(sum_of(6)[0], six));
  const at::Tensor three = (part(0) + part(1)) + part(2);
  EXPECT_TRUE(torch::equal(sum_of(3)[0], three));
  const at::Tensor in_turn = ((((part(0) + part(1)) + part(2)) + part(3)) + part(4)) + part(5);
  EXPECT_FALSE(torch::equal(in_turn, six));  // otherwise this test could not fail
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

TEST(GradientTree, AddsUpInAnyOrderToTheSameBits) {
  const Gradients expected = sum_of(6);
  expect_same_bits(sum_of(6, {5, 3, 1, 0, 2, 4}), expected);
  expect_same_bits(sum_of(6, {0, 2, 4, 5, 3, 1}), expected);
}

TEST(GradientTree, LeavesBorrowedMemoryAlone) {
  const Gradients first = gradients_of(0), second = gradients_of(1);
  GradientTree tree(3);
  tree.add({.range = {0, 1}, .gradients = first, .borrowed = true});
  tree.add({.range = {1, 2}, .gradients = second, .borrowed = true});
  const Gradients third = gradients_of(2);
  tree.add({.range = {2, 3}, .gradients = third, .borrowed = true});
  tree.settle();
  expect_same_bits(tree.take().front().gradients, sum_of(3));
  expect_same_bits(first, gradients_of(0));
  expect_same_bits(second, gradients_of(1));
  expect_same_bits(third, gradients_of(2));
}

/// Three units: a layer's tensors of 40,000 and 5 elements, the layer's experts of 20,000 elements,
/// and the rest of 3 elements.
std::vector<ParameterUnit> units_of(int ranks) {
  return parameter_units(
      {{"embed", 3}, {"layer_0.a", 40000}, {"layer_0.mlp.experts.down", 20000}, {"layer_0.z", 5}},
      [](const std::string& name) { return name.ends_with("down"); }, ranks, ranks);
}

TEST(ParameterUnits, AreLayersFromTheLastAndThenTheRest) {
  const auto units = parameter_units({{"embed", 1},
                                      {"layer_0.a", 1},
                                      {"layer_10.a", 1},
                                      {"layer_10.mlp.router.w", 1},
                                      {"model.layer_2.a", 1},
                                      {"player_3.a", 1}},
                                     {}, 1, 1);
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(units[0].parameters, (std::vector<std::size_t>{2}));
  EXPECT_EQ(units[1].parameters, (std::vector<std::size_t>{4}));
  EXPECT_EQ(units[2].parameters, (std::vector<std::size_t>{1}));
  EXPECT_EQ(units[3].parameters, (std::vector<std::size_t>{0, 3, 5}));
  EXPECT_EQ(units[3].layer, -1);
}

TEST(UnitExchange, SumsAreBitwiseThoseOfOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const auto gradients_of_part = [](std::size_t part) {
    const auto seed = static_cast<double>(part);
    const at::Tensor big = torch::arange(40000, at::kFloat).add(seed).mul(1.7).sin();
    return Gradients{big.mul(std::exp(seed)), torch::full({5}, 1.0 / (3 + seed), at::kFloat)};
  };
  for (const std::size_t parts : {1, 2, 3, 4, 6, 7, 12}) {
    GradientTree alone(parts);
    for (std::size_t part = 0; part < parts; ++part)
      alone.add({.range = {part, part + 1}, .gradients = gradients_of_part(part)});
    const Gradients expected = alone.take().front().gradients;
    for (const int ranks : {2, 3, 4})
      testing::on_ranks(ranks, [&](const dist::ProcessGroup& group) {
        const ParameterUnit unit = units_of(ranks)[1];
        EXPECT_EQ(unit.parameters, (std::vector<std::size_t>{1, 3}));
        const PartRange mine = parts_of_rank(parts, group.rank(), ranks);
        GradientTree own(parts), spans(parts);
        for (std::size_t part = mine.first; part < mine.last; ++part)
          own.add({.range = {part, part + 1}, .gradients = gradients_of_part(part)});
        std::vector<std::vector<PartRange>> nodes;
        for (int rank = 0; rank < ranks; ++rank)
          nodes.push_back(GradientTree::nodes_within(parts, parts_of_rank(parts, rank, ranks)));
        UnitExchange exchange(group);
        exchange.sum(unit, nodes, own.take(), at::kFloat, spans);
        ASSERT_EQ(spans.nodes().size(), 1U);
        const Gradients whole = {torch::zeros({200, 200}), torch::zeros({5})};
        exchange.gather(unit, spans.take().front().gradients, whole);
        expect_same_bits({whole[0].view(-1), whole[1]}, expected);
      });
  }
}

}  // namespace
}  // namespace penstock
