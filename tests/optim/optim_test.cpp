#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/optim/adamw.h"
#include "penstock/optim/schedule.h"
#include "tests/base/error_of.h"

namespace penstock {
namespace {

TEST(Schedule, WarmsUpAndFollowsTheCosine) {
  const OptimizerConfig config{.lr = 1.0, .min_lr = 0.1, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, 104), 0.2);  // 1/5
  EXPECT_DOUBLE_EQ(learning_rate(config, 3, 104), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4, 104), 1.0);
  EXPECT_NEAR(learning_rate(config, 54, 104), 0.55, 1e-12);  // half way
  // A quarter of the way: 0.1 + 0.9·(1 + cos(π/4))/2.
  EXPECT_NEAR(learning_rate(config, 29, 104), 0.8681980515339464, 1e-12);
  EXPECT_NEAR(learning_rate(config, 104, 104), 0.1, 1e-12);
}

TEST(Schedule, LinearAndConstant) {
  OptimizerConfig config{
      .lr = 1.0, .min_lr = 0.2, .lr_schedule = LrSchedule::linear, .warmup_steps = 2};
  EXPECT_DOUBLE_EQ(learning_rate(config, 1, 10), 2 / 3.);
  EXPECT_DOUBLE_EQ(learning_rate(config, 2, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4, 10), 0.8);  // 0.2 + 0.8·6/8
  EXPECT_DOUBLE_EQ(learning_rate(config, 12, 10), 0.2);
  config.lr_schedule = LrSchedule::constant;
  EXPECT_DOUBLE_EQ(learning_rate(config, 1, 10), 2 / 3.);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9, 10), 1.0);
}

TEST(Schedule, StepsDownTwiceNearTheEnd) {
  const OptimizerConfig config{.lr = 1.0, .lr_schedule = LrSchedule::steps, .warmup_steps = 1};
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 1, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 79, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 80, 100), 0.316);
  EXPECT_DOUBLE_EQ(learning_rate(config, 89, 100), 0.316);
  EXPECT_NEAR(learning_rate(config, 90, 100), 0.099856, 1e-12);
  EXPECT_NEAR(learning_rate(config, 99, 100), 0.099856, 1e-12);
}

TEST(OptimizerConfig, WhatIsOpenFollowsFromTheRest) {
  OptimizerConfig config{.lr = 1.0};
  config.complete(1000, "");
  EXPECT_EQ(config.min_lr, 0.1);
  EXPECT_EQ(config.warmup_steps, 10);
  OptimizerConfig contradiction{.lr = 1.0, .min_lr = 2.0};
  EXPECT_EQ(testing::error_of([&] { contradiction.complete(10, "train."); }),
            "train.min_lr = 2 is above train.lr = 1");
  OptimizerConfig short_run{.lr = 1.0};
  short_run.complete(99, "");
  EXPECT_EQ(short_run.warmup_steps, 1);
  const auto refusal = [](OptimizerConfig endless) {
    return testing::error_of([&] { endless.complete(10, "train."); });
  };
  EXPECT_EQ(refusal({.beta1 = 1}), "train.beta1 = 1 must be below 1");
  EXPECT_EQ(refusal({.beta2 = 1}), "train.beta2 = 1 must be below 1");
  EXPECT_EQ(refusal({.eps = 0}), "train.eps = 0 must be above 0 in f32; give 1e-8");
  // In f32 this is 0, and the update of a weight without a gradient would be 0 / 0.
  EXPECT_EQ(refusal({.eps = 1e-60}), "train.eps = 1e-60 must be above 0 in f32; give 1e-8");
}

class TwoTensors : public torch::nn::Module {
 public:
  TwoTensors() {
    matrix = register_parameter("matrix", torch::tensor({1.0F, -2.0F}).view({1, 2}));
    vector = register_parameter("vector", torch::tensor({3.0F}));
    unused = register_parameter("unused", torch::tensor({5.0F}));
  }
  at::Tensor matrix, vector, unused;
};

TEST(AdamW, DecaysMatricesOnlyAndClipsByTheGlobalNorm) {
  TwoTensors model;
  AdamW optimizer(model, {.weight_decay = 0.5, .clip = 1.0});
  (model.matrix.sum() * 3 + model.vector.sum() * 4).backward();
  // The norm of (3, 3, 4) is sqrt(34).
  EXPECT_NEAR(optimizer.update(0.1).gradient_norm, 5.830951894845301, 1e-6);
  // First AdamW step: m̂/√v̂ = sign(g). Matrix: w − 0.1·(0.5·w + 1); vector: 3 − 0.1.
  EXPECT_NEAR(model.matrix[0][0].item<double>(), 1 - 0.1 * (0.5 + 1), 1e-5);
  EXPECT_NEAR(model.matrix[0][1].item<double>(), -2 - 0.1 * (-1 + 1), 1e-5);
  EXPECT_NEAR(model.vector[0].item<double>(), 2.9, 1e-5);
  EXPECT_EQ(model.unused[0].item<double>(), 5.0);
  // The moments use the clipped gradient: (1−β1)·3/√34.
  EXPECT_NEAR(optimizer.state().at("m.matrix")[0][0].item<double>(), 0.1 * 3 / 5.830951894845301,
              1e-6);
}

/// The biases of all experts, or of all of a layer's query maps, are one tensor of two axes.
class StackedBiases : public torch::nn::Module {
 public:
  StackedBiases() {
    for (const char* name : {"down", "down_bias", "query_bias", "bias"})
      register_parameter(name, torch::tensor({1.0F, -2.0F, 4.0F, 8.0F}).view({2, 2}));
  }
};

TEST(AdamW, DecaysNoBiasesOfSeveralExperts) {
  StackedBiases model;
  AdamW optimizer(model, {.weight_decay = 0.5, .clip = 0});
  optimizer.update(0.1);  // without gradients only the decay acts: down − 0.1·0.5·down
  const auto now = model.named_parameters();
  EXPECT_TRUE(torch::allclose(now["down"].detach().flatten(),
                              torch::tensor({0.95F, -1.9F, 3.8F, 7.6F}), 1e-6));
  for (const char* name : {"down_bias", "query_bias", "bias"})
    EXPECT_TRUE(now[name].detach().flatten().equal(torch::tensor({1.0F, -2.0F, 4.0F, 8.0F})))
        << name;
}

TEST(AdamW, CoupledDecayIsPartOfTheGradientOfEveryTensor) {
  TwoTensors model;
  AdamW optimizer(model,
                  {.beta1 = 0.5, .weight_decay = 0.25, .decay = Decay::coupled, .clip = 5.0});
  (model.matrix.sum() * 6 + model.vector.sum() * 8).backward();
  EXPECT_NEAR(optimizer.update(0.1).gradient_norm, 11.661903789690601, 1e-6);  // sqrt(36 + 36 + 64)
  // The moments use the clipped gradient plus 0.25·w: (1−β1)·(6·5/√136 + 0.25·1), and so on.
  EXPECT_NEAR(optimizer.state().at("m.matrix")[0][0].item<double>(),
              0.5 * (2.572478777137633 + 0.25), 1e-5);
  EXPECT_NEAR(optimizer.state().at("m.vector")[0].item<double>(), 0.5 * (3.429971702850177 + 0.75),
              1e-5);
  EXPECT_NEAR(optimizer.state().at("m.unused")[0].item<double>(), 0.5 * 1.25, 1e-5);
  // The first step still has length lr, against the gradient's sign. No other decay is applied.
  EXPECT_NEAR(model.matrix[0][0].item<double>(), 0.9, 1e-5);
  EXPECT_NEAR(model.unused[0].item<double>(), 4.9, 1e-5);
}

TEST(AdamW, LeavesFrozenParametersAlone) {
  TwoTensors model;
  model.vector.set_requires_grad(false);
  AdamW optimizer(model, {.weight_decay = 0.25, .decay = Decay::coupled, .clip = 0});
  (model.matrix.sum() * 6).backward();
  EXPECT_NEAR(optimizer.update(0.1).gradient_norm, 8.48528137423857, 1e-6);  // sqrt(36 + 36)
  EXPECT_EQ(model.vector[0].item<double>(), 3);
  EXPECT_EQ(optimizer.state().size(), 4u);  // two moments of the matrix and of the unused tensor
}

TEST(AdamW, SomeParametersHaveALearningRateOfTheirOwn) {
  TwoTensors model, same;
  AdamW optimizer(model, {.weight_decay = 0.5, .clip = 0},
                  [](const std::string& name) { return name == "matrix" ? 3.0 : 1.0; });
  (model.matrix.sum() * 3 + model.vector.sum() * 4).backward();
  optimizer.update(0.1);
  // The first step has length lr. The decay is lr·0.5·w.
  EXPECT_NEAR(model.matrix[0][0].item<double>(), 1 - 0.3 * (0.5 + 1), 1e-5);
  EXPECT_NEAR(model.vector[0].item<double>(), 2.9, 1e-5);
  // Both groups count the same steps: the second step of each has length lr again.
  optimizer.zero_gradients();
  (model.matrix.sum() * 3 + model.vector.sum() * 4).backward();
  optimizer.update(0.1);
  EXPECT_NEAR(model.vector[0].item<double>(), 2.8, 1e-5);
}

TEST(AdamW, StateRestoresBitwise) {
  torch::manual_seed(1);
  TwoTensors a, b;
  AdamW first(a, {}), second(b, {});
  const auto train = [](TwoTensors& model, AdamW& optimizer) {
    optimizer.zero_gradients();
    (model.matrix.pow(2).sum() + model.vector.pow(3).sum()).backward();
    optimizer.update(0.01);
  };
  for (int i = 0; i < 3; ++i) train(a, first);
  {
    torch::NoGradGuard no_grad;
    b.matrix.copy_(a.matrix);
    b.vector.copy_(a.vector);
  }
  std::map<std::string, at::Tensor> copies;
  for (const auto& [name, tensor] : first.state()) copies[name] = tensor.clone();
  second.load_state(copies, 3);
  for (int i = 0; i < 3; ++i) {
    train(a, first);
    train(b, second);
  }
  EXPECT_TRUE(torch::equal(a.matrix, b.matrix));
  EXPECT_TRUE(torch::equal(a.vector, b.vector));
}

TEST(AdamW, KeepsAndRestoresMomentsInBf16) {
  const OptimizerConfig config{.moments = Moments::bf16};
  TwoTensors a, b;
  AdamW first(a, config), second(b, config);
  (a.matrix.pow(2).sum() + a.vector.pow(3).sum()).backward();
  first.update(0.01);
  for (const auto& [name, moment] : first.state())
    EXPECT_EQ(moment.scalar_type(), at::kBFloat16) << name;
  // Moments in fp32 are rounded to nearest. This happens once, when a run changes their type.
  std::map<std::string, at::Tensor> wide;
  for (const auto& [name, moment] : first.state()) wide[name] = moment.to(at::kFloat);
  second.load_state(wide, 1);
  for (const auto& [name, moment] : second.state())
    EXPECT_TRUE(torch::equal(moment, first.state().at(name))) << name;
}

TEST(AdamW, NamesTheParameterWhoseGradientIsNotFiniteAndUpdatesNothing) {
  TwoTensors model;
  AdamW optimizer(model, {});
  (model.matrix.sum() + model.vector.sum() * INFINITY).backward();
  const UpdateOutcome outcome = optimizer.update(0.1);
  EXPECT_FALSE(std::isfinite(outcome.gradient_norm));
  EXPECT_EQ(outcome.failure, "the gradient is not finite, first in vector");
  EXPECT_EQ(model.matrix[0][0].item<double>(), 1);
  EXPECT_EQ(optimizer.state().at("m.matrix").count_nonzero().item<std::int64_t>(), 0);
  optimizer.zero_gradients();
  model.vector.sum().backward();
  EXPECT_EQ(optimizer.update(0.1).failure, "");
  EXPECT_NEAR(model.vector[0].item<double>(), 2.9, 1e-5);  // the first step has length lr
}

}  // namespace
}  // namespace penstock
