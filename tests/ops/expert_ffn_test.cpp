// expert_ffn: the reference by hand and by finite differences in f64; the fast f32 path, forward
// and all four gradients, against the f64 reference on odd shapes and uneven plans.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/ops.h"
#include "tests/ops/expert_plan_fixture.h"
#include "tests/ops/finite_difference.h"
#include "tests/ops/random_shape.h"

namespace penstock::ops::expert_ffn_test {
namespace {

using testing::make_test_plan;
using testing::TestPlan;

struct Case {
  TestPlan plan;
  at::Tensor hidden, weight, w_in, w_out;  // f64
  at::Tensor b_in, b_out;                  // f64, or undefined
  Activation activation = Activation::swiglu;
  bool recompute = false;
  double dropout = 0;
  at::Tensor keys = {};  // i64, or undefined
};

struct Results {
  at::Tensor y, hidden, weight, w_in, w_out, b_in, b_out;
};

Case make_case(const TestPlan& plan, std::int64_t tokens, std::int64_t experts, std::int64_t d,
               std::int64_t f) {
  const auto f64 = torch::kDouble;
  torch::manual_seed(tokens * 7 + d);
  // On a grid: sums before max(0, x) are exact in f32, so that no sign depends on rounding.
  const auto grid = [](const at::Tensor& x, double steps) { return (x * steps).round() / steps; };
  return {plan, grid(torch::randn({tokens, d}, f64), 8),
          torch::rand({plan.assignments()}, f64) + 0.1,
          grid(torch::randn({experts, 2 * f, d}, f64) / std::sqrt(double(d)), 64),
          torch::randn({experts, d, f}, f64) / std::sqrt(double(f))};
}

/// The same case with biases and max(0, x) between the products.
Case with_relu(Case c) {
  const std::int64_t experts = c.w_out.size(0), d = c.w_out.size(1), f = c.w_out.size(2);
  c.w_in = c.w_in.narrow(1, 0, f).contiguous();
  c.b_in = (torch::randn({experts, f}, c.w_in.options()) * 8).round() / 8;
  c.b_out = torch::randn({experts, d}, c.w_in.options());
  c.activation = Activation::relu;
  return c;
}

Case with_dropout(Case c) {
  c.dropout = 0.3;
  return c;
}

at::Tensor call(const Case& c) {
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return expert_ffn(c.hidden, c.weight, c.plan.token, c.plan.offsets, c.plan.by_token,
                    c.plan.token_offsets, c.w_in, c.w_out,
                    {.b_in = optional(c.b_in),
                     .b_out = optional(c.b_out),
                     .activation = c.activation,
                     .recompute = c.recompute,
                     .dropout = c.dropout,
                     .dropout_seed = 77,
                     .dropout_keys = optional(c.keys)});
}

/// Output and gradients; the f32 run computes from the same (f32-representable) values.
Results run(const Case& c, at::ScalarType type) {
  Case leaves = c;
  for (at::Tensor* x :
       {&leaves.hidden, &leaves.weight, &leaves.w_in, &leaves.w_out, &leaves.b_in, &leaves.b_out})
    if (x->defined()) *x = x->to(torch::kFloat).to(type).set_requires_grad(true);
  const at::Tensor y = call(leaves);
  const at::Tensor probe = torch::linspace(-1, 1, y.numel()).cos().to(type).view(y.sizes());
  (y * probe).sum().backward();
  return {y.detach(),
          leaves.hidden.grad(),
          leaves.weight.grad(),
          leaves.w_in.grad(),
          leaves.w_out.grad(),
          c.b_in.defined() ? leaves.b_in.grad() : at::Tensor(),
          c.b_out.defined() ? leaves.b_out.grad() : at::Tensor()};
}

std::map<std::string, double> errors(const Results& fast, const Results& exact) {
  std::map<std::string, double> out{{"y", testing::relative_error(fast.y, exact.y)},
                                    {"hidden", testing::relative_error(fast.hidden, exact.hidden)},
                                    {"weight", testing::relative_error(fast.weight, exact.weight)},
                                    {"w_in", testing::relative_error(fast.w_in, exact.w_in)},
                                    {"w_out", testing::relative_error(fast.w_out, exact.w_out)}};
  if (exact.b_in.defined()) out["b_in"] = testing::relative_error(fast.b_in, exact.b_in);
  if (exact.b_out.defined()) out["b_out"] = testing::relative_error(fast.b_out, exact.b_out);
  return out;
}

void expect_same_bits(const Results& a, const Results& b) {
  EXPECT_TRUE(a.y.equal(b.y));
  EXPECT_TRUE(a.hidden.equal(b.hidden));
  EXPECT_TRUE(a.weight.equal(b.weight));
  EXPECT_TRUE(a.w_in.equal(b.w_in));
  EXPECT_TRUE(a.w_out.equal(b.w_out));
  EXPECT_TRUE(!a.b_in.defined() || a.b_in.equal(b.b_in));
  EXPECT_TRUE(!a.b_out.defined() || a.b_out.equal(b.b_out));
}

/// Each (expert, token) pair with the given chance.
TestPlan random_plan(std::int64_t tokens, std::int64_t experts, double chance) {
  return make_test_plan(tokens, experts, [&](std::int64_t e, std::int64_t t) {
    return static_cast<double>(random_bits(5, e, t) >> 11) * 0x1p-53 < chance;
  });
}

TEST(ExpertFfn, HandWorked) {
  // Two tokens of width 1, f = 1. Expert 0 takes both, expert 1 none, expert 2 token 1.
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

TEST(ExpertFfn, KeysDrawWhatTheirSeedsAndRowsWould) {
  const Case c = with_dropout(with_relu(make_case(random_plan(200, 4, 0.5), 200, 4, 24, 90)));
  Case keyed = c, foreign = c;
  keyed.keys = dropout_keys(77, 0, c.plan.assignments());
  foreign.keys = dropout_keys(5, 100, c.plan.assignments()).flip(0).contiguous();
  expect_same_bits(run(keyed, at::kFloat), run(c, at::kFloat));
  const Results exact = run(foreign, at::kDouble);
  for (const auto& [name, error] : errors(run(foreign, at::kFloat), exact))
    EXPECT_LT(error, 4e-6) << name;
  EXPECT_GT((exact.y - run(c, at::kDouble).y).abs().max().item<double>(), 0.1);
}

struct Shape {
  const char* name;
  std::int64_t tokens, experts, d, f;
  double chance;  // below 0: all tokens to expert −chance − 1
};

class ExpertShapes : public ::testing::TestWithParam<Shape> {};

void expect_fast_path_as_in_f64(const Shape& s, double tolerance = 4e-6) {
  const TestPlan plan =
      s.chance >= 0 ? random_plan(s.tokens, s.experts, s.chance)
                    : make_test_plan(s.tokens, s.experts, [&](std::int64_t e, std::int64_t) {
                        return e == static_cast<std::int64_t>(-s.chance) - 1;
                      });
  const Case gated = make_case(plan, s.tokens, s.experts, s.d, s.f);
  for (const Case& c : {gated, with_relu(gated), with_dropout(with_relu(gated))}) {
    reset_dispatch_counts();
    const Results fast = run(c, torch::kFloat);
    const auto counts = dispatch_counts();
    ASSERT_EQ(counts.count("expert_ffn/xsmm"), 1u);
    ASSERT_EQ(counts.count("expert_ffn.backward/xsmm"), 1u);
    ASSERT_EQ(counts.count("expert_ffn/reference"), 0u);
    const Results exact = run(c, torch::kDouble);
    ASSERT_EQ(dispatch_counts().at("expert_ffn.backward/reference"), 1);
    for (const auto& [name, error] : errors(fast, exact)) EXPECT_LT(error, tolerance) << name;
    Case again = c;
    again.recompute = true;
    expect_same_bits(run(again, torch::kFloat), fast);
  }
  const Results fast = run(gated, torch::kFloat);
  for (std::int64_t e = 0; e < s.experts; ++e) {
    if (plan.offsets[e].item<std::int64_t>() != plan.offsets[e + 1].item<std::int64_t>()) continue;
    EXPECT_EQ(fast.w_in[e].abs().sum().item<float>(), 0) << "expert " << e;
    EXPECT_EQ(fast.w_out[e].abs().sum().item<float>(), 0) << "expert " << e;
  }
}

TEST_P(ExpertShapes, FastPathMatchesReferenceInF64) {
  if (!built_with("xsmm")) GTEST_SKIP() << "built without libxsmm";
  expect_fast_path_as_in_f64(GetParam());
}

TEST(ExpertFfn, RandomShapes) {
  if (!built_with("xsmm")) GTEST_SKIP() << "built without libxsmm";
  for (std::uint64_t trial = 0; trial < 30; ++trial) {
    testing::RandomShape draw(trial);
    const std::int64_t experts = draw.size(1, 40);
    const Shape s{"random",
                  draw.size(1, 300),
                  experts,
                  draw.size(1, 150),
                  draw.size(1, 300),
                  draw.coin() ? draw.share() : -static_cast<double>(draw.size(1, experts))};
    SCOPED_TRACE(concat("trial ", trial, ": T=", s.tokens, " E=", s.experts, " d=", s.d, " f=", s.f,
                        " chance=", s.chance));
    expect_fast_path_as_in_f64(s, 2e-5);  // few results may all nearly cancel
  }
}

INSTANTIATE_TEST_SUITE_P(Uneven, ExpertShapes,
                         ::testing::Values(Shape{"one_token", 1, 3, 5, 7, 0.9},
                                           Shape{"no_assignment", 6, 3, 8, 4, 0.0},
                                           Shape{"no_token", 0, 2, 4, 3, 0.5},
                                           Shape{"odd", 131, 5, 33, 29, 0.4},
                                           Shape{"empty_experts", 20, 40, 16, 24, 0.02},
                                           Shape{"all_on_one", 700, 4, 24, 300, -2},
                                           Shape{"several_panels", 300, 3, 48, 257, 0.6},
                                           Shape{"all_on_all", 90, 6, 64, 128, 1.0},
                                           Shape{"several_groups", 300, 64, 16, 24, 0.7},
                                           Shape{"wide", 60, 2, 257, 130, 0.5}),
                         [](const auto& info) { return info.param.name; });

TEST(ExpertFfn, ComparisonSeesSmallFaults) {
  const Case c = make_case(random_plan(64, 4, 0.5), 64, 4, 32, 48);
  const Results exact = run(c, torch::kDouble);
  // One weight of one expert off by 1 %: output and every other gradient move.
  Case wrong = c;
  wrong.w_out = c.w_out.clone();
  wrong.w_out[2][7][11] *= 1.01;
  auto seen = errors(run(wrong, torch::kFloat), exact);
  for (const char* name : {"y", "hidden", "weight", "w_in"}) EXPECT_GT(seen[name], 4e-6) << name;
  // Two assignments' weights exchanged: w_out's gradient sees it.
  wrong = c;
  wrong.weight = c.weight.clone();
  wrong.weight[0] = c.weight[1];
  wrong.weight[1] = c.weight[0];
  seen = errors(run(wrong, torch::kFloat), exact);
  for (const char* name : {"y", "hidden", "w_in", "w_out"}) EXPECT_GT(seen[name], 4e-6) << name;
}

TEST(ExpertFfn, SameBitsInEveryRun) {
  const Case c = make_case(random_plan(4096, 8, 0.25), 4096, 8, 32, 160);
  set_threads(2);
  const Results first = run(c, torch::kFloat);
  for (int i = 0; i < 6; ++i) expect_same_bits(run(c, torch::kFloat), first);
  set_threads(0);
}

TEST(ExpertFfn, SameBitsForOneAndTwoThreads) {
  if (!built_with("xsmm")) GTEST_SKIP() << "built without libxsmm: the BLAS cuts by threads";
  const Case c = make_case(random_plan(4096, 8, 0.25), 4096, 8, 32, 160);
  set_threads(2);
  const Results two = run(c, torch::kFloat);
  set_threads(1);
  expect_same_bits(run(c, torch::kFloat), two);
  set_threads(0);
}

TEST(ExpertFfn, OutputWithoutGradientIsTheSame) {
  const Case c = make_case(random_plan(100, 3, 0.5), 100, 3, 16, 140);
  const Results with = run(c, torch::kFloat);
  const torch::NoGradGuard no_grad;
  const auto f32 = [](const at::Tensor& tensor) { return tensor.to(torch::kFloat); };
  EXPECT_TRUE(
      call({c.plan, f32(c.hidden), f32(c.weight), f32(c.w_in), f32(c.w_out)}).equal(with.y));
}

/// f32 copies that want no gradient.
Case without_gradient(Case c) {
  for (at::Tensor* tensor : {&c.hidden, &c.weight, &c.w_in, &c.w_out, &c.b_in, &c.b_out})
    if (tensor->defined()) *tensor = tensor->to(torch::kFloat);
  return c;
}

TEST(ExpertFfn, FewTokensMatchTheReferenceInF64) {
  for (const auto& [tokens, experts, d, f, chance] :
       std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, double>>{
           {1, 8, 64, 96, 0.3},
           {1, 1, 1, 1, 1.0},
           {5, 3, 33, 29, 0.7},
           {16, 40, 48, 257, 0.5},
           {16, 2, 513, 130, 1.0},
           {3, 4, 8, 8, 0.0},
           {0, 2, 4, 3, 0.5}}) {
    SCOPED_TRACE(concat("T=", tokens, " E=", experts, " d=", d, " f=", f));
    const Case gated = make_case(random_plan(tokens, experts, chance), tokens, experts, d, f);
    for (const Case& c : {gated, with_relu(gated)}) {
      reset_dispatch_counts();
      const at::Tensor fast = call(without_gradient(c));
      EXPECT_EQ(dispatch_counts().at("expert_ffn/rows"), 1);
      EXPECT_LT(testing::relative_error(fast, call(c)), 4e-6);
    }
  }
}

TEST(ExpertFfn, FewTokensLeaveEachOtherAlone) {
  // Sixteen at once against each alone, and one thread against two: bit for bit.
  const std::int64_t tokens = 16, experts = 5;
  const auto takes = [](std::int64_t e, std::int64_t t) { return (e * 7 + t * 3) % 5 < 2; };
  const Case c = without_gradient(
      with_relu(make_case(make_test_plan(tokens, experts, takes), tokens, experts, 70, 90)));
  set_threads(2);
  const at::Tensor all = call(c);
  set_threads(1);
  EXPECT_TRUE(call(c).equal(all));
  set_threads(0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    Case one = c;
    one.plan =
        make_test_plan(1, experts, [&](std::int64_t e, std::int64_t) { return takes(e, t); });
    one.hidden = c.hidden.narrow(0, t, 1);
    one.weight = c.weight.index({c.plan.token == t});
    EXPECT_TRUE(call(one).equal(all.narrow(0, t, 1))) << t;
  }
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
