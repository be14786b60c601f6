// The experts of a layer against a loop over tokens and experts, for both kinds of plan.
#include "penstock/experts/experts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/precision.h"

namespace penstock {
namespace {

constexpr std::int64_t kExperts = 3, kWidth = 4, kInner = 5, kTokens = 8;

Experts double_experts() {
  Experts experts(kExperts, kWidth, kInner);
  experts.to(at::kDouble);
  experts.initialize(0.6, 0.6, InitialDraws(3));
  return experts;
}

/// One token through one feed-forward network: down · (silu(g) ⊙ u), element by element.
at::Tensor ffn(const at::Tensor& h, const at::Tensor& gate_up, const at::Tensor& down) {
  const at::Tensor inner = gate_up.mv(h);  // [2f]
  const at::Tensor g = inner.slice(0, 0, kInner), u = inner.slice(0, kInner);
  return down.mv(g / (1 + (-g).exp()) * u);
}

TEST(Experts, SumsWeightedExpertsPerToken) {
  torch::manual_seed(1);
  Experts experts = double_experts();
  const at::Tensor hidden = torch::randn({kTokens, kWidth}, at::kDouble);
  const at::Tensor gates = torch::rand({kTokens, kExperts}, at::kDouble);
  at::Tensor mask = torch::rand({kTokens, kExperts}) < 0.5;
  mask[2].fill_(false);
  const at::Tensor y = experts.forward(hidden, make_plan(gates, mask));
  for (std::int64_t t = 0; t < kTokens; ++t) {
    at::Tensor expected = at::zeros({kWidth}, at::kDouble);
    for (std::int64_t e = 0; e < kExperts; ++e)
      if (mask[t][e].item<bool>())
        expected = expected + gates[t][e] * ffn(hidden[t], experts.gate_up()[e], experts.down()[e]);
    EXPECT_LT((y[t] - expected).abs().max().item<double>(), 1e-12) << t;
  }
  EXPECT_EQ(y[2].abs().max().item<double>(), 0);
}

TEST(Experts, MergingInBf16RoundsTheOperandsOfItsProducts) {
  constexpr std::int64_t tokens = 64, width = 32, inner = 48;
  torch::manual_seed(9);
  ops::emulate_bf16(!ops::processor_has_bf16());
  Experts experts(kExperts, width, inner);
  experts.initialize(0.2, 0.2, InitialDraws(3));
  const at::Tensor hidden = torch::randn({tokens, width}).requires_grad_();
  const at::Tensor blend = torch::rand({4, kExperts}).softmax(1).requires_grad_();
  const at::Tensor upstream = torch::randn({tokens, width});
  const std::vector<at::Tensor> inputs{hidden, blend, experts.gate_up(), experts.down()};
  const auto outcome = [&](ops::ProductPrecision precision) {
    for (const at::Tensor& input : inputs) input.mutable_grad() = at::Tensor();
    const ops::PrecisionScope scope(precision);
    const at::Tensor y = experts.forward(hidden, make_merge_plan(blend, tokens, 16));
    y.backward(upstream);
    std::vector<at::Tensor> out{y.detach()};
    for (const at::Tensor& input : inputs) out.push_back(input.grad().clone());
    return out;
  };
  const auto error = [](const at::Tensor& found, const at::Tensor& expected) {
    return ((found - expected).norm() / expected.norm()).item<double>();
  };
  const auto exact = outcome(ops::ProductPrecision::fp32);
  ops::reset_dispatch_counts();
  const auto rounded = outcome(ops::ProductPrecision::bf16);
  EXPECT_EQ(ops::dispatch_counts()["linear/bf16"], 8);  // two products of four segments
  EXPECT_EQ(ops::dispatch_counts()["linear.backward/bf16"], 8);
  // Operands keep 8 bits, so each product's error is about 2^-9·sqrt(2) of its size.
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_LT(error(rounded[i], exact[i]), 0.015) << i;
    EXPECT_GT(error(rounded[i], exact[i]), 1e-4) << i;
  }
  // The forward pass by its description, in f64 except for the rounded values.
  const torch::NoGradGuard no_grad;
  const auto round = [](const at::Tensor& x) {
    return x.to(at::kFloat).to(at::kBFloat16).to(at::kDouble);
  };
  const auto blended = [&](const at::Tensor& w) {
    return torch::einsum("se,eoi->soi", {blend, w});
  };
  const at::Tensor in = round(hidden.view({4, 16, width}))
                            .bmm(round(blended(experts.gate_up())).transpose(1, 2)),
                   g = in.narrow(2, 0, inner), u = in.narrow(2, inner, inner);
  const at::Tensor y =
      round(g * g.sigmoid() * u).bmm(round(blended(experts.down())).transpose(1, 2));
  EXPECT_LT(error(rounded[0].to(at::kDouble), y.view({tokens, width})), 1e-3);
  ops::emulate_bf16(false);
}

TEST(Experts, MergingBlendsTheWeightsPerSegment) {
  torch::manual_seed(2);
  Experts experts = double_experts();
  const at::Tensor hidden = torch::randn({kTokens, kWidth}, at::kDouble);
  const at::Tensor blend = torch::rand({2, kExperts}, at::kDouble).softmax(1);
  const at::Tensor y = experts.forward(hidden, make_merge_plan(blend, kTokens, 4));
  for (std::int64_t t = 0; t < kTokens; ++t) {
    at::Tensor gate_up = at::zeros({2 * kInner, kWidth}, at::kDouble),
               down = at::zeros({kWidth, kInner}, at::kDouble);
    for (std::int64_t e = 0; e < kExperts; ++e) {
      gate_up = gate_up + blend[t / 4][e] * experts.gate_up()[e];
      down = down + blend[t / 4][e] * experts.down()[e];
    }
    EXPECT_LT((y[t] - ffn(hidden[t], gate_up, down)).abs().max().item<double>(), 1e-12) << t;
  }
}

TEST(Experts, MergingBlendsTheBiasesToo) {
  torch::manual_seed(2);
  Experts experts(kExperts, kWidth, kInner, {.activation = ops::Activation::relu, .bias = true});
  experts.to(at::kDouble);
  experts.initialize(0.6, 0.6, InitialDraws(3));
  auto parameters = experts.named_parameters();
  {
    const torch::NoGradGuard no_grad;
    for (const char* name : {"up_bias", "down_bias"}) parameters[name].normal_();
  }
  const at::Tensor hidden = torch::randn({kTokens, kWidth}, at::kDouble);
  const at::Tensor blend = torch::rand({2, kExperts}, at::kDouble).softmax(1);
  const at::Tensor y = experts.forward(hidden, make_merge_plan(blend, kTokens, 4));
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const auto blended = [&](const char* name) {
      at::Tensor out = at::zeros_like(parameters[name][0]);
      for (std::int64_t e = 0; e < kExperts; ++e) out = out + blend[t / 4][e] * parameters[name][e];
      return out;
    };
    const at::Tensor inner = (blended("up").mv(hidden[t]) + blended("up_bias")).clamp_min(0);
    const at::Tensor expected = blended("down").mv(inner) + blended("down_bias");
    EXPECT_LT((y[t] - expected).abs().max().item<double>(), 1e-12) << t;
  }
}

TEST(Experts, WithoutAssignmentsEverythingIsZero) {
  Experts experts = double_experts();
  const at::Tensor hidden = torch::randn({kTokens, kWidth}, at::kDouble).requires_grad_();
  const at::Tensor gates = torch::rand({kTokens, kExperts}, at::kDouble).requires_grad_();
  const at::Tensor y =
      experts.forward(hidden, make_plan(gates, at::zeros({kTokens, kExperts}, at::kBool)));
  EXPECT_EQ(y.abs().max().item<double>(), 0);
  y.sum().backward();
  for (const at::Tensor& leaf : {hidden, gates, experts.gate_up(), experts.down()}) {
    ASSERT_TRUE(leaf.grad().defined());
    EXPECT_EQ(leaf.grad().abs().max().item<double>(), 0);
  }
}

TEST(Experts, InitialisesBothMatricesWithTheirOwnDeviation) {
  Experts experts(8, 32, 32);
  experts.initialize(0.2, 0.05, InitialDraws(4));
  EXPECT_EQ(experts.gate_up().sizes(), (std::vector<std::int64_t>{8, 64, 32}));
  EXPECT_EQ(experts.down().sizes(), (std::vector<std::int64_t>{8, 32, 32}));
  // 16384 and 8192 draws: standard errors of 0.6 % and 0.8 %.
  EXPECT_NEAR(experts.gate_up().std().item<double>(), 0.2, 0.008);
  EXPECT_NEAR(experts.down().std().item<double>(), 0.05, 0.003);
  EXPECT_EQ(experts.named_parameters().size(), 2U);
}

TEST(Experts, RejectsPlansAndRowsOfAnotherShape) {
  Experts experts = double_experts();
  const auto plan = [](std::int64_t tokens, std::int64_t count) {
    return make_plan(torch::rand({tokens, count}, at::kDouble),
                     at::ones({tokens, count}, at::kBool));
  };
  const at::Tensor hidden = torch::randn({kTokens, kWidth}, at::kDouble);
  EXPECT_NO_THROW(experts.forward(hidden, plan(kTokens, kExperts)));
  EXPECT_THROW(experts.forward(hidden, plan(kTokens - 1, kExperts)), Error);
  EXPECT_THROW(experts.forward(hidden, plan(kTokens, kExperts + 1)), Error);
  EXPECT_THROW(experts.forward(hidden.slice(1, 1), plan(kTokens, kExperts)), Error);
  EXPECT_THROW(Experts(0, 4, 4), Error);
}

}  // namespace
}  // namespace penstock
