// Row lookup: values, gradients in f64, the f32 path, and sums over repeated ids that repeat bit
// for bit.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock::embedding_test {
namespace {

using namespace penstock::testing;

const TensorFunction kLookup = [](const std::vector<at::Tensor>& in) {
  return ops::embedding(in[0], in[1]);
};

TEST(Embedding, WorkedByHand) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    auto weight = torch::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kDouble).view({3, 2}).to(type);
    weight.set_requires_grad(true);
    const auto y = ops::embedding(weight, torch::tensor({2, 0, 2}, at::kLong));
    EXPECT_TRUE(
        y.equal(torch::tensor({5.0, 6.0, 1.0, 2.0, 5.0, 6.0}, at::kDouble).view({3, 2}).to(type)));
    (y * torch::tensor({1.0, 10.0, 100.0}, at::kDouble).to(type).view({3, 1})).sum().backward();
    EXPECT_TRUE(weight.grad().equal(
        torch::tensor({10.0, 10.0, 0.0, 0.0, 101.0, 101.0}, at::kDouble).view({3, 2}).to(type)));
  }
}

TEST(Embedding, GradientsOfTheReference) {
  const auto report =
      check_gradients(kLookup, {normal({5, 3}), torch::randint(0, 5, {2, 4}, at::kLong)});
  EXPECT_LT(report.error, 1e-7) << report.where;
}

TEST(Embedding, FastPathOnOddShapes) {
  for (const auto& [vocabulary, d, tokens] :
       std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{
           {1, 1, 1}, {3, 17, 40}, {1000, 64, 33}, {50, 100, 513}})
    expect_fast_path("embedding", "cpu", kLookup,
                     {normal({vocabulary, d}), torch::randint(0, vocabulary, {tokens}, at::kLong)});
}

TEST(Embedding, Repeats) {
  // There are few ids, so most rows are added many times.
  expect_repeats(kLookup, {normal({7, 96}), torch::randint(0, 7, {16, 256}, at::kLong)});
}

TEST(Embedding, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto results =
        value_and_gradients(kLookup, {normal({4, 3}), torch::empty({2, 0}, at::kLong)}, type);
    EXPECT_EQ(results[0].sizes(), (std::vector<std::int64_t>{2, 0, 3}));
    EXPECT_EQ(results[1].abs().sum().item<double>(), 0);
  }
}

TEST(Embedding, RefusesIdsOutsideTheVocabulary) {
  const auto weight = torch::zeros({4, 3});
  EXPECT_THROW(ops::embedding(weight, torch::tensor({0, 4}, at::kLong)), Error);
  EXPECT_THROW(ops::embedding(weight, torch::tensor({-1}, at::kLong)), Error);
  EXPECT_THROW(ops::embedding(weight, torch::zeros({2})), Error);
}

}  // namespace
}  // namespace penstock::embedding_test
