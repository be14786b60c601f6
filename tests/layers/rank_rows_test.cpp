// How rows enter and leave the products that ranks divide, with rows that every rank holds whole or
// that are divided: values, and gradients by finite differences over all ranks.
#include "penstock/layers/rank_rows.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>

#include "tests/dist/ranks.h"

namespace penstock::rank_rows {
namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kRows = 6, kRowWidth = 2;

/// Numbers for the rows of one rank. Another `rank` gives other numbers.
at::Tensor numbers(std::int64_t rows, int rank, double phase = 0) {
  return at::arange(rows * kRowWidth, at::kDouble)
      .mul(0.7)
      .add(phase + 1.3 * rank)
      .sin()
      .view({rows, kRowWidth});
}

at::Tensor total(at::Tensor value, const dist::ProcessGroup& group) {
  value = value.detach().clone();
  group.all_reduce(value, dist::Reduction::sum);
  return value;
}

using Operation = std::function<at::Tensor(const RankRows&, const at::Tensor&)>;

/// With y = operation(x) and L = Σ over ranks of Σ w ⊙ y³, where each rank has weights w of its
/// own: compares the gradient of every element of every rank's x with the central difference of L.
void expect_gradients(const RankRows& rows, std::int64_t length, const Operation& operation) {
  const dist::ProcessGroup& group = rows.ranks();
  const at::Tensor x = numbers(length, group.rank()).requires_grad_();
  const auto own_loss = [&](const at::Tensor& input) {
    const at::Tensor y = operation(rows, input);
    return (numbers(y.size(0), group.rank(), 0.4) * y.pow(3)).sum();
  };
  own_loss(x).backward();
  const torch::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  for (int rank = 0; rank < group.size(); ++rank)
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const auto loss_at = [&](double step) {
        at::Tensor moved = x.detach().clone();
        if (rank == group.rank()) moved.view(-1)[i] += step;
        return total(own_loss(moved), group).item<double>();
      };
      const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      if (rank == group.rank()) {
        EXPECT_NEAR(x.grad().view(-1)[i].item<double>(), difference, 1e-7) << rank << " " << i;
      }
    }
}

class RankRowsTest : public testing::RanksTest<> {};

TEST_F(RankRowsTest, EnterAndLeaveByTheGradientsOfWhatTheyCompute) {
  testing::on_ranks(kRanks, [](const dist::ProcessGroup& group) {
    const RankRows divided(group, true);
    const std::int64_t own = kRows / kRanks;
    expect_gradients(divided, own,
                     [](const RankRows& rows, const at::Tensor& x) { return rows.enter(x); });
    expect_gradients(divided, kRows,
                     [](const RankRows& rows, const at::Tensor& x) { return rows.leave(x); });
    // A product between entering and leaving.
    expect_gradients(divided, own, [&](const RankRows& rows, const at::Tensor& x) {
      return rows.leave(rows.enter(x).pow(2) * numbers(kRows, group.rank(), 0.9));
    });
  });
}

TEST_F(RankRowsTest, AreGatheredAndSummedInTheOrderOfTheRanks) {
  testing::on_ranks(kRanks, [](const dist::ProcessGroup& group) {
    const RankRows divided(group, true), whole(group);
    const std::int64_t own = kRows / kRanks;
    const at::Tensor all = numbers(kRows, 0);
    const at::Tensor held = all.narrow(0, own * group.rank(), own);
    EXPECT_TRUE(torch::equal(divided.enter(held), all));
    EXPECT_TRUE(torch::equal(whole.enter(all), all));
    at::Tensor sum = numbers(kRows, 0);
    for (int rank = 1; rank < kRanks; ++rank) sum = sum + numbers(kRows, rank);
    const at::Tensor parts = numbers(kRows, group.rank()).view({2, 3, kRowWidth});
    EXPECT_TRUE(torch::equal(divided.leave(parts), sum.narrow(0, own * group.rank(), own)));
    EXPECT_TRUE(at::allclose(whole.leave(parts).view({kRows, kRowWidth}), sum));
    const at::Tensor ids = at::arange(kRows).view({2, 3});
    EXPECT_TRUE(torch::equal(divided.held(ids), at::arange(own) + own * group.rank()));
    EXPECT_TRUE(torch::equal(whole.held(ids), ids));
    EXPECT_EQ(divided.sizes(2, 3, kRowWidth), (std::vector<std::int64_t>{own, kRowWidth}));
    EXPECT_EQ(whole.sizes(2, 3, kRowWidth), (std::vector<std::int64_t>{2, 3, kRowWidth}));
  });
}

/// f(x) = Σ over ranks of the rank's part of a product, plus a term that all ranks compute alike
/// and that counts once.
TEST_F(RankRowsTest, CountWhatAllComputeAlikeOnce) {
  testing::on_ranks(kRanks, [](const dist::ProcessGroup& group) {
    const at::Tensor all = numbers(kRows, 0).requires_grad_();
    at::Tensor expected = all.exp().sum();
    for (int rank = 0; rank < kRanks; ++rank)
      expected = expected + (numbers(kRows, rank, 0.4) * all.pow(2)).sum();
    expected.backward();
    const std::int64_t own = kRows / kRanks;
    for (const bool divides : {true, false}) {
      const RankRows rows(group, divides);
      at::Tensor held = all.detach().clone();
      if (divides) held = held.narrow(0, own * group.rank(), own).clone();
      held.requires_grad_();
      const at::Tensor entered = rows.enter(held);
      const at::Tensor alike = rows.alike(entered);
      (alike.exp().sum() + (numbers(kRows, group.rank(), 0.4) * entered.pow(2)).sum()).backward();
      const at::Tensor gradient =
          divides ? all.grad().narrow(0, own * group.rank(), own) : all.grad();
      EXPECT_TRUE(at::allclose(held.grad(), gradient, 1e-12, 1e-12)) << divides;
    }
  });
}

TEST_F(RankRowsTest, HaveOneMeanOnAllRanks) {
  testing::on_ranks(kRanks, [](const dist::ProcessGroup& group) {
    const RankRows divided(group, true), whole(group);
    const at::Tensor mine = at::full({}, 1.0 + group.rank(), at::kDouble).requires_grad_();
    const at::Tensor mean = divided.mean(mine);
    EXPECT_DOUBLE_EQ(mean.item<double>(), 2);
    mean.backward();
    EXPECT_DOUBLE_EQ(mine.grad().item<double>(), divided.share());
    EXPECT_DOUBLE_EQ(divided.share(), 1.0 / kRanks);
    EXPECT_TRUE(whole.mean(mine).is_same(mine));
    EXPECT_EQ(whole.share(), 1);
  });
}

TEST(RankRowsOfOneProcess, AreWhatTheyAre) {
  const RankRows rows({}, true);
  EXPECT_FALSE(rows.divided());
  const at::Tensor x = numbers(kRows, 0).requires_grad_();
  EXPECT_TRUE(rows.enter(x).is_same(x));
  EXPECT_TRUE(rows.alike(x).is_same(x));
  EXPECT_TRUE(rows.leave(x).is_same(x));
}

}  // namespace
}  // namespace penstock::rank_rows
