// expert_ffn: the reference against numbers worked by hand and against finite differences in f64,
// and the plans that it refuses.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/expert_ffn_case.h"
#include "tests/ops/finite_difference.h"

namespace penstock::ops::expert_ffn_test {
namespace {

TEST(ExpertFfn, HandWorked) {
  // Two tokens of width 1, f = 1. Expert 0 takes both tokens, expert 1 none, expert 2 token 1.
  const auto plan = make_test_plan(
      2, 3, [](std::int64_t e, std::int64_t t) { return e == 0 || (e == 2 && t == 1); });
  const auto f64 = torch::kDouble;
  const Case c{plan, torch::tensor({{1.0}, {2.0}}, f64), torch::tensor({0.5, 0.25, 2.0}, f64),
               torch::tensor({{{1.0}, {3.0}}, {{9.0}, {9.0}}, {{-1.0}, {1.0}}}, f64),
               torch::tensor({{{2.0}}, {{9.0}}, {{1.0}}}, f64)};
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto y = call(c);
  EXPECT_NEAR(y[0].item<double>(), 0.5 * 2 * silu(1) * 3, 1e-14);
  EXPECT_NEAR(y[1].item<double>(), 0.25 * 2 * silu(2) * 6 + 2.0 * silu(-2) * 2, 1e-14);
}

TEST(ExpertFfn, GradientsMatchFiniteDifferences) {
  const Case c = make_case(random_plan(5, 4, 0.5), 5, 4, 3, 2);
  const auto report = testing::check_gradients(
      [&](const std::vector<at::Tensor>& in) {
        return call({c.plan, in[0], in[1], in[2], in[3]}).tanh();
      },
      {c.hidden, c.weight, c.w_in, c.w_out});
  EXPECT_LT(report.error, 1e-8) << report.where;
}

TEST(ExpertFfn, ReluWithBiasesHandWorked) {
  // One token of width 1, f = 2: relu(2·1 + 1) = 3, relu(−1·1 + 0.5) = 0; 3·4 + 0·5 + 0.25.
  const auto plan = make_test_plan(1, 1, [](std::int64_t, std::int64_t) { return true; });
  const auto f64 = torch::kDouble;
  Case c{plan, torch::tensor({{1.0}}, f64), torch::tensor({0.5}, f64),
         torch::tensor({{{2.0}, {-1.0}}}, f64), torch::tensor({{{4.0, 5.0}}}, f64)};
  c.b_in = torch::tensor({{1.0, 0.5}}, f64);
  c.b_out = torch::tensor({{0.25}}, f64);
  c.activation = Activation::relu;
  EXPECT_NEAR(call(c).item<double>(), 0.5 * 12.25, 1e-14);
}

TEST(ExpertFfn, ReluGradientsMatchFiniteDifferences) {
  const Case c = with_relu(make_case(random_plan(5, 4, 0.5), 5, 4, 3, 2));
  const auto report = testing::check_gradients(
      [&](const std::vector<at::Tensor>& in) {
        return call({c.plan, in[0], in[1], in[2], in[3], in[4], in[5], c.activation}).tanh();
      },
      {c.hidden, c.weight, c.w_in, c.w_out, c.b_in, c.b_out});
  EXPECT_LT(report.error, 1e-8) << report.where;
}

TEST(ExpertFfn, DropoutGradientsMatchFiniteDifferences) {
  const Case c = with_dropout(with_relu(make_case(random_plan(6, 4, 0.5), 6, 4, 3, 5)));
  const auto report = testing::check_gradients(
      [&](const std::vector<at::Tensor>& in) {
        return call({c.plan, in[0], in[1], in[2], in[3], in[4], in[5], c.activation, false,
                     c.dropout})
            .tanh();
      },
      {c.hidden, c.weight, c.w_in, c.w_out, c.b_in, c.b_out});
  EXPECT_LT(report.error, 1e-8) << report.where;
}

TEST(ExpertFfn, DropoutIsTheOperatorsOnTheActivationsOfEachAssignment) {
  const std::int64_t tokens = 150, f = 200;
  const auto plan = make_test_plan(tokens, 2, [](std::int64_t, std::int64_t) { return true; });
  const Case c = with_dropout(with_relu(make_case(plan, tokens, 2, 24, f)));
  at::Tensor activations =
      torch::cat({torch::addmm(c.b_in[0], c.hidden, c.w_in[0].t()),
                  torch::addmm(c.b_in[1], c.hidden, c.w_in[1].t())},
                 0)
          .relu();  // [2T, f]: the first expert's assignments, then the second's
  activations = ops::dropout(activations, c.dropout, 77);
  const at::Tensor rows =
      torch::cat({torch::addmm(c.b_out[0], activations.narrow(0, 0, tokens), c.w_out[0].t()),
                  torch::addmm(c.b_out[1], activations.narrow(0, tokens, tokens), c.w_out[1].t())},
                 0) *
      c.weight.unsqueeze(1);
  const at::Tensor expected = rows.narrow(0, 0, tokens) + rows.narrow(0, tokens, tokens);
  EXPECT_LT((call(c) - expected).abs().max().item<double>(), 1e-12);
}

TEST(ExpertFfn, BadPlansAreErrors) {
  const Case good = make_case(random_plan(6, 3, 0.6), 6, 3, 4, 5);
  const auto broken = [&](auto change) {
    Case c = good;
    c.plan.token = c.plan.token.clone();
    c.plan.offsets = c.plan.offsets.clone();
    c.plan.by_token = c.plan.by_token.clone();
    change(c);
    return c;
  };
  EXPECT_NO_THROW(call(good));
  EXPECT_THROW(call(broken([](Case& c) { c.plan.token[0] = 6; })), Error);
  EXPECT_THROW(call(broken([](Case& c) { c.plan.by_token[0] = -1; })), Error);
  EXPECT_THROW(call(broken([](Case& c) { c.plan.by_token[0] = 1000; })), Error);
  EXPECT_THROW(call(broken([](Case& c) { c.plan.offsets[1] = 99; })), Error);
  EXPECT_THROW(call(broken([](Case& c) { c.w_out = torch::randn({3, 5, 4}); })), Error);
  EXPECT_THROW(call(broken([](Case& c) { c.hidden = c.hidden.to(torch::kFloat); })), Error);
}

}  // namespace
}  // namespace penstock::ops::expert_ffn_test
