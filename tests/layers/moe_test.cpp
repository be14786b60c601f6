// The layer as a model of one's own embeds it: which forward passes move the balancers that it
// owns.
#include "penstock/layers/moe.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace penstock {
namespace {

constexpr std::int64_t kWidth = 4, kExperts = 4;

/// ReLU routing with target sparsity 1 − 1/4 whose router is the unit matrix: a row's positive
/// entries are its experts.
struct ReluLayer {
  ReluLayer()
      : layer({.d_model = kWidth, .d_ffn = 8, .experts = kExperts, .router = {.method = "remoe"}}) {
    torch::NoGradGuard no_grad;
    for (auto& parameter : layer.router().parameters()) parameter.copy_(torch::eye(kExperts));
  }
  /// A pass over `rows` rows of which each has `experts` experts.
  void pass(bool training, std::int64_t rows, std::int64_t experts) {
    at::Tensor x = -at::ones({rows, kWidth});
    x.slice(1, 0, experts).fill_(1);
    layer.forward(x, {.training = training});
  }
  double lambda() {
    for (const auto& buffer : layer.named_buffers())
      if (buffer.key().find("lambda") != std::string::npos) return buffer->item<double>();
    ADD_FAILURE() << "no lambda";
    return 0;
  }
  MoeLayer layer;
};

const double kUp = 1.2e-8, kDown = 1e-8 / 1.2;

TEST(MoeLayer, TrainingPassesMoveLambda) {
  ReluLayer dense, sparse;
  dense.pass(true, 6, 2);  // sparsity 0.5, below 0.75
  dense.layer.after_step();
  EXPECT_NEAR(dense.lambda(), kUp, 1e-14);
  sparse.pass(true, 6, 0);
  sparse.layer.after_step();
  EXPECT_NEAR(sparse.lambda(), kDown, 1e-14);
}

TEST(MoeLayer, AnEvaluationBeforeTheStepEndsDoesNotMoveLambda) {
  ReluLayer relu;
  relu.pass(true, 6, 2);
  relu.pass(false, 6, 0);
  relu.layer.after_step();
  EXPECT_NEAR(relu.lambda(), kUp, 1e-14);
}

TEST(MoeLayer, EveryMicroBatchCountsByItsTokens) {
  ReluLayer relu;
  // 12·3 of 16·4 pairs are on: sparsity 28/64, although the last micro-batch's is 1.
  relu.pass(true, 12, 3);
  relu.pass(true, 4, 0);
  relu.layer.after_step();
  EXPECT_NEAR(relu.lambda(), kUp, 1e-14);
  // 2·3 of 32·4 pairs: 0.953, although the mean of 0.25 and 1 is below the target.
  ReluLayer other;
  other.pass(true, 2, 3);
  other.pass(true, 30, 0);
  other.layer.after_step();
  EXPECT_NEAR(other.lambda(), kDown, 1e-14);
}

TEST(MoeLayer, AStepForgetsThePassesBeforeIt) {
  ReluLayer relu;
  relu.pass(true, 60, 4);
  relu.layer.after_step();
  relu.pass(true, 1, 0);
  relu.layer.after_step();  // up, and down again
  EXPECT_NEAR(relu.lambda(), 1e-8, 1e-14);
  relu.layer.after_step();  // nothing was trained
  EXPECT_NEAR(relu.lambda(), 1e-8, 1e-14);
}

TEST(MoeLayer, BalancersOfTheModelAreTheModelsToMove) {
  const MoeOptions options = {
      .d_model = kWidth, .d_ffn = 8, .experts = kExperts, .router = {.method = "remoe"}};
  const auto balancers = make_balancers(resolve(options.router), router_shape(options));
  MoeLayer layer(options, balancers);
  layer.forward(at::ones({3, kWidth}), {.training = true});
  layer.after_step();
  EXPECT_NEAR(balancers[0]->state().at("lambda"), 1e-8, 1e-14);
}

}  // namespace
}  // namespace penstock
