// The operands that the tap shows, against operands computed by ATen. The tap changes no result.
#include "penstock/ops/product_tap.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

#include "penstock/ops/ops.h"
#include "tests/ops/expert_plan_fixture.h"

namespace penstock::ops::product_tap_test {
namespace {

using testing::make_test_plan;
using testing::TestPlan;

struct Shown {
  at::Tensor rows;
  const void* weight;
  std::int64_t matrix;
};

/// All that the tap shows during `call`.
template <class Call>
std::vector<Shown> shown_by(const Call& call) {
  std::vector<Shown> out;
  const ProductTap tap([&](const at::Tensor& rows, const at::Tensor& weight, std::int64_t matrix) {
    out.push_back({rows.clone(), weight.unsafeGetTensorImpl(), matrix});
  });
  call();
  return out;
}

TEST(ProductTap, SeesTheRowsOfLinear) {
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({2, 20, 8}), w = torch::randn({5, 8});
  at::Tensor y;
  const auto shown = shown_by([&] { y = ops::linear(x, w); });
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_TRUE(shown[0].rows.equal(x.view({40, 8})));
  EXPECT_EQ(shown[0].weight, w.unsafeGetTensorImpl());
  EXPECT_EQ(shown[0].matrix, 0);
  EXPECT_TRUE(y.equal(ops::linear(x, w)));
}

TEST(ProductTap, SeesForwardPassesAloneOnce) {
  torch::manual_seed(2);
  const at::Tensor x = torch::randn({4, 8}), w = torch::randn({5, 8}).requires_grad_();
  EXPECT_EQ(shown_by([&] { ops::linear(x, w).sum().backward(); }).size(), 1U);
  EXPECT_TRUE(w.grad().defined());
}

/// Token t goes to the experts e with (t + e) % 3 == 0. The last expert but one gets no token.
TEST(ProductTap, SeesEachExpertsRowsAndWhatItsActivationMakesOfThem) {
  torch::manual_seed(3);
  constexpr std::int64_t kTokens = 30, kExperts = 4, kWidth = 8, kInner = 6;
  const TestPlan plan =
      make_test_plan(kTokens, kExperts, [](auto e, auto t) { return e != 2 && (t + e) % 3 == 0; });
  const at::Tensor hidden = torch::randn({kTokens, kWidth}),
                   weight = torch::rand({plan.assignments()});
  for (const Activation activation : {Activation::swiglu, Activation::relu})
    for (const bool biased : {false, true}) {
      const std::int64_t in = (activation == Activation::swiglu ? 2 : 1) * kInner;
      const at::Tensor w_in = torch::randn({kExperts, in, kWidth}),
                       w_out = torch::randn({kExperts, kWidth, kInner}),
                       b_in = torch::randn({kExperts, in}),
                       b_out = torch::randn({kExperts, kWidth});
      ExpertOptions options{.activation = activation};
      if (biased) options.b_in = b_in, options.b_out = b_out;
      const auto call = [&] {
        return expert_ffn(hidden, weight, plan.token, plan.offsets, plan.by_token,
                          plan.token_offsets, w_in, w_out, options);
      };
      at::Tensor y;
      const auto shown = shown_by([&] { y = call(); });
      EXPECT_TRUE(y.equal(call()));
      ASSERT_EQ(shown.size(), 6U);
      std::size_t next = 0;
      for (const std::int64_t e : {0, 1, 3}) {
        const at::Tensor rows = hidden.slice(0, (3 - e % 3) % 3, kTokens, 3);
        at::Tensor inner = rows.matmul(w_in[e].t());
        if (biased) inner = inner + b_in[e];
        inner = activation == Activation::relu
                    ? inner.relu()
                    : at::silu(inner.slice(1, 0, kInner)) * inner.slice(1, kInner);
        const Shown &first = shown[next++], &second = shown[next++];
        EXPECT_EQ(first.weight, w_in.unsafeGetTensorImpl());
        EXPECT_EQ(second.weight, w_out.unsafeGetTensorImpl());
        EXPECT_EQ(first.matrix, e);
        EXPECT_EQ(second.matrix, e);
        EXPECT_TRUE(first.rows.equal(rows));
        EXPECT_TRUE(at::allclose(second.rows, inner, 1e-4, 1e-5));
      }
    }
}

TEST(ProductTap, EndsWithItsScope) {
  const at::Tensor x = torch::ones({1, 2}), w = torch::ones({2, 2});
  EXPECT_EQ(shown_by([&] { ops::linear(x, w); }).size(), 1U);
  EXPECT_EQ(shown_by([] {}).size(), 0U);
  EXPECT_TRUE(ops::linear(x, w).equal(torch::full({1, 2}, 2.0f)));
}

}  // namespace
}  // namespace penstock::ops::product_tap_test
