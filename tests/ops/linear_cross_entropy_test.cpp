// A linear head with its cross-entropy: numbers worked by hand, gradients in f64 over several
// chunks, the f32 path against the reference, and the memory of a chunk.
#include "penstock/ops/linear_cross_entropy.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock::linear_cross_entropy_test {
namespace {

using namespace penstock::testing;

/// The mean loss, computed in either type with the logits of `rows` rows at a time.
TensorFunction loss_by_rows(std::int64_t rows) {
  return [rows](const std::vector<at::Tensor>& in) {
    return ops::linear_cross_entropy(in[0], in[1], in[2],
                                     rows * in[1].size(0) * in[0].element_size());
  };
}

at::Tensor targets(std::int64_t rows, std::int64_t width) {
  return torch::randint(0, width, {rows}, at::kLong);
}

/// The loss of one row of logits. The row is the product of h = [1] with the logits as w.
at::Tensor row_loss(const at::Tensor& logits, std::int64_t target) {
  return ops::linear_cross_entropy_rows(torch::ones({1, 1}, logits.options()), logits.unsqueeze(1),
                                        torch::tensor({target}, at::kLong));
}

TEST(LinearCrossEntropy, WorkedByHand) {
  // The probabilities are 1/10, 2/10 and 7/10. The loss of the last class is ln(10/7), and the
  // gradient is p − onehot.
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto w = torch::tensor({std::log(1.0), std::log(2.0), std::log(7.0)}, at::kDouble)
                       .view({3, 1})
                       .to(type)
                       .set_requires_grad(true);
    const auto hidden = torch::ones({2, 1}, type).set_requires_grad(true);
    const auto target = torch::tensor({2, 0}, at::kLong);
    const auto rows = ops::linear_cross_entropy_rows(hidden, w, target);
    EXPECT_FALSE(rows.requires_grad());
    EXPECT_NEAR(rows[0].item<double>(), std::log(10.0 / 7.0), 1e-6);
    EXPECT_NEAR(rows[1].item<double>(), std::log(10.0), 1e-6);
    const auto loss = ops::linear_cross_entropy(hidden, w, target);
    EXPECT_NEAR(loss.item<double>(), (std::log(10.0 / 7.0) + std::log(10.0)) / 2, 1e-6);
    (loss * 20).backward();  // 10·(p − onehot) for each of the two rows
    EXPECT_NEAR(w.grad()[0].item<double>(), 1.0 - 9.0, 1e-5);
    EXPECT_NEAR(w.grad()[1].item<double>(), 2.0 + 2.0, 1e-5);
    EXPECT_NEAR(w.grad()[2].item<double>(), -3.0 + 7.0, 1e-5);
    EXPECT_NEAR(hidden.grad()[0].item<double>(), 2 * std::log(2.0) - 3 * std::log(7.0), 1e-5);
  }
}

TEST(LinearCrossEntropy, GradientsOfTheReferenceInChunks) {
  for (const std::int64_t rows : {1, 2, 5, 100}) {
    torch::manual_seed(rows);
    const auto report =
        check_gradients(loss_by_rows(rows), {normal({5, 4}), normal({7, 4}), targets(5, 7)});
    EXPECT_LT(report.error, 1e-8) << report.where << ", " << rows << " rows at once";
  }
}

TEST(LinearCrossEntropy, FastPathOnOddShapesAndChunks) {
  if (!ops::built_with("onednn")) GTEST_SKIP() << "built without oneDNN";
  struct Size {
    std::int64_t rows, width, vocabulary, at_once;
  };
  for (const auto& s : std::vector<Size>{{1, 1, 1, 1},
                                         {3, 5, 2, 2},
                                         {65, 33, 31, 16},
                                         {70, 0, 9, 33},
                                         {129, 64, 256, 1000},
                                         {100, 24, 4097, 33},
                                         {2, 8, 51200, 1}}) {
    torch::manual_seed(s.rows);
    const std::vector<at::Tensor> inputs{normal({s.rows, s.width}), normal({s.vocabulary, s.width}),
                                         targets(s.rows, s.vocabulary)};
    ops::reset_dispatch_counts();
    const auto fast = value_and_gradients(loss_by_rows(s.at_once), inputs, at::kFloat);
    EXPECT_EQ(ops::dispatch_counts()["linear_cross_entropy/onednn"], 1);
    const auto exact = value_and_gradients(loss_by_rows(s.at_once), inputs, at::kDouble);
    EXPECT_EQ(ops::dispatch_counts()["linear_cross_entropy/reference"], 1);
    // The gradients of a mean are small.
    for (std::size_t i = 0; i < fast.size(); ++i)
      EXPECT_LT(error_by_largest(fast[i], exact[i]), 2e-5)
          << "result " << i << " at " << s.rows << "x" << s.width << "x" << s.vocabulary;
    const auto rows = ops::linear_cross_entropy_rows(inputs[0].to(at::kFloat),
                                                     inputs[1].to(at::kFloat), inputs[2]);
    EXPECT_NEAR(rows.mean().item<double>(), exact[0].item<double>(),
                1e-5 * std::max(1.0, exact[0].item<double>()));
  }
}

TEST(LinearCrossEntropy, OnlyTheGradientThatIsWanted) {
  torch::manual_seed(1);
  for (const auto type : {at::kFloat, at::kDouble})
    for (const int which : {0, 1}) {
      std::vector<at::Tensor> in{torch::randn({9, 4}, type), torch::randn({6, 4}, type)};
      const auto target = targets(9, 6);
      auto both = std::vector<at::Tensor>{in[0].clone().set_requires_grad(true),
                                          in[1].clone().set_requires_grad(true)};
      ops::linear_cross_entropy(both[0], both[1], target, 100).backward();
      in[which].set_requires_grad(true);
      ops::linear_cross_entropy(in[0], in[1], target, 100).backward();
      EXPECT_TRUE(in[which].grad().equal(both[which].grad()));
      EXPECT_FALSE(in[1 - which].grad().defined());
    }
}

TEST(LinearCrossEntropy, BackwardTwiceGivesTheSameTwice) {
  torch::manual_seed(2);
  const auto hidden = torch::randn({9, 4}).set_requires_grad(true), w = torch::randn({6, 4});
  const auto loss = ops::linear_cross_entropy(hidden, w, targets(9, 6));
  const auto once = torch::autograd::grad({loss}, {hidden}, {}, true)[0].clone();
  const auto scaled = torch::autograd::grad({loss * 3}, {hidden}, {}, true)[0];
  const auto again = torch::autograd::grad({loss}, {hidden})[0];
  EXPECT_TRUE(once.equal(again));
  EXPECT_TRUE(torch::allclose(scaled, once * 3));
}

TEST(LinearCrossEntropy, AChunksLogitsFitTheBudget) {
  // 1024 tokens with the vocabulary of the paper's 182M model: all logits together take 200 MiB.
  const std::int64_t rows = ops::rows_per_chunk(1024, 51200, 4, ops::kLogitsBytes);
  EXPECT_LE(rows * 51200 * 4, ops::kLogitsBytes);
  EXPECT_GE(rows, 128);  // and the passes over w are few
  for (const std::int64_t tokens : {0, 1, 31, 32, 33, 1000, 4096, 100000})
    for (const std::int64_t vocabulary : {1, 7, 256, 32000, 151936, 20000000})
      for (const std::int64_t budget : {1 << 10, 1 << 20, 1 << 25}) {
        const std::int64_t chunk = ops::rows_per_chunk(tokens, vocabulary, 4, budget);
        ASSERT_GE(chunk, 1);
        ASSERT_LE(chunk, std::max<std::int64_t>(1, tokens));
        ASSERT_TRUE(chunk == 1 || chunk * vocabulary * 4 <= budget)
            << tokens << " tokens, vocabulary " << vocabulary << ", " << budget << " bytes";
        // The number of chunks is the smallest that whole blocks of 32 rows allow.
        const std::int64_t most = std::max<std::int64_t>(1, budget / (vocabulary * 4));
        const std::int64_t blocks = most > 32 ? most / 32 * 32 : most;
        ASSERT_EQ((tokens + chunk - 1) / chunk,
                  tokens <= most ? tokens > 0 : (tokens + blocks - 1) / blocks);
      }
}

TEST(LinearCrossEntropy, LargeLogitsDoNotOverflow) {
  for (const auto type : {at::kFloat, at::kDouble})
    EXPECT_NEAR(row_loss(torch::tensor({1e4, -1e4, 0.0}, type), 1).item<double>(), 2e4, 1e-2);
}

TEST(LinearCrossEntropy, NotANumberStaysOne) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto hidden = torch::randn({40, 3}, type).set_requires_grad(true);
    const auto w = torch::randn({50, 3}, type);
    w[17][1] = NAN;
    const auto loss = ops::linear_cross_entropy(hidden, w, targets(40, 50), 1000);
    EXPECT_TRUE(std::isnan(loss.item<double>()));
    loss.backward();
    EXPECT_TRUE(hidden.grad().isnan().all().item<bool>());
    EXPECT_TRUE(
        std::isnan(row_loss(torch::tensor({1.0, double(NAN), 0.0}, type), 0).item<double>()));
  }
}

TEST(LinearCrossEntropy, Repeats) {
  torch::manual_seed(3);
  const auto expect = ops::built_with("onednn") ? expect_repeats : expect_same_in_every_run;
  for (const std::int64_t vocabulary : {256, 1003})
    expect(loss_by_rows(512),
           {normal({1500, 64}), normal({vocabulary, 64}), targets(1500, vocabulary)});
}

TEST(LinearCrossEntropy, NoRowsHaveNoLossAndNoGradient) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto results =
        value_and_gradients(loss_by_rows(4), {normal({0, 5}), normal({3, 5}), targets(0, 3)}, type);
    EXPECT_EQ(results[0].item<double>(), 0);
    EXPECT_EQ(results[1].numel(), 0);
    EXPECT_TRUE(results[2].equal(torch::zeros({3, 5}, type)));
  }
}

TEST(LinearCrossEntropy, RefusesWhatDoesNotFit) {
  const auto hidden = torch::zeros({2, 4}), w = torch::zeros({3, 4});
  const auto loss = [&](const at::Tensor& target) {
    return ops::linear_cross_entropy(hidden, w, target);
  };
  EXPECT_THROW(loss(torch::tensor({0, 3}, at::kLong)), Error);
  EXPECT_THROW(loss(torch::tensor({-1, 0}, at::kLong)), Error);
  EXPECT_THROW(loss(torch::zeros({3}, at::kLong)), Error);
  EXPECT_THROW(loss(torch::zeros({2})), Error);
  const auto target = torch::zeros({2}, at::kLong);
  EXPECT_THROW(ops::linear_cross_entropy(hidden, torch::zeros({3, 5}), target), Error);
  EXPECT_THROW(ops::linear_cross_entropy(hidden, w.to(at::kDouble), target), Error);
  EXPECT_THROW(ops::linear_cross_entropy(hidden, torch::zeros({0, 4}), target), Error);
}

}  // namespace
}  // namespace penstock::linear_cross_entropy_test
