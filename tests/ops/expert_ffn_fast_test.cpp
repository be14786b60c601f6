// expert_ffn's fast f32 paths, forward and all gradients, against the f64 reference on odd shapes
// and uneven plans. Neither the number of threads nor other tokens change a bit.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <tuple>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/ops.h"
#include "tests/ops/expert_ffn_case.h"
#include "tests/ops/random_shape.h"

namespace penstock::ops::expert_ffn_test {
namespace {

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
  double chance;  // below 0: all tokens go to expert −chance − 1
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
    expect_fast_path_as_in_f64(s, 2e-5);  // with few results, all of them may nearly cancel
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
  // With one weight of one expert off by 1 %, the output and every other gradient change.
  Case wrong = c;
  wrong.w_out = c.w_out.clone();
  wrong.w_out[2][7][11] *= 1.01;
  auto seen = errors(run(wrong, torch::kFloat), exact);
  for (const char* name : {"y", "hidden", "weight", "w_in"}) EXPECT_GT(seen[name], 4e-6) << name;
  // With the weights of two assignments exchanged, the gradient of w_out changes.
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
  if (!built_with("xsmm"))
    GTEST_SKIP() << "built without libxsmm: the BLAS divides the work by the number of threads";
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

/// The case in f32, with tensors that require no gradient.
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
  // Sixteen tokens at once against each token alone, and one thread against two, bit for bit.
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

}  // namespace
}  // namespace penstock::ops::expert_ffn_test
