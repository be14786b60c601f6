// The layer in a user's own model: which forward passes move the balancers that the layer owns.
#include "penstock/layers/moe.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <set>

#include "penstock/base/error.h"
#include "tests/base/error_of.h"

namespace penstock {
namespace {

constexpr std::int64_t kWidth = 4, kExperts = 4;

/// A layer with ReLU routing and target sparsity 1 − 1/4. Its router is the identity matrix, so the
/// positive entries of a row are the row's experts.
struct ReluLayer {
  ReluLayer()
      : layer({.d_model = kWidth, .d_ffn = 8, .experts = kExperts, .router = {.method = "remoe"}}) {
    torch::NoGradGuard no_grad;
    for (auto& parameter : layer.router().parameters()) parameter.copy_(torch::eye(kExperts));
  }
  /// Runs a pass over `rows` rows with `experts` experts each.
  void pass(bool training, std::int64_t rows, std::int64_t experts) {
    at::Tensor x = -at::ones({rows, kWidth});
    x.slice(1, 0, experts).fill_(1);
    layer.forward(x, {.training = training});
  }
  double lambda() {
    for (const auto& buffer : layer.named_buffers())
      if (buffer.key().find("lambda") != std::string::npos) return buffer->item<double>();
    ADD_FAILURE() << "the layer has no buffer with lambda";
    return 0;
  }
  MoeLayer layer;
};

const double kUp = 1.2e-8, kDown = 1e-8 / 1.2;

TEST(MoeLayer, RowsOfAnotherWidthAreRefused) {
  MoeLayer layer(
      {.d_model = kWidth, .d_ffn = 8, .experts = kExperts, .router = {.method = "hash"}});
  testing::expect_error(
      [&] {
        layer.forward(at::ones({3, kWidth + 1}), {});
      },
      {"x [3, 5] must be [..., d_model], and the layer's d_model is 4"});
  testing::expect_error([&] { layer.forward(at::ones({}), {}); }, {"x [] must be [..., d_model]"});
}

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
  // 12·3 of 16·4 pairs are active. The sparsity is 28/64, although the last micro-batch's is 1.
  relu.pass(true, 12, 3);
  relu.pass(true, 4, 0);
  relu.layer.after_step();
  EXPECT_NEAR(relu.lambda(), kUp, 1e-14);
  // 2·3 of 32·4 pairs are active. The sparsity is 0.953, although the mean of the two passes' 0.25
  // and 1 is below the target.
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
  relu.layer.after_step();  // λ moves up, and down again
  EXPECT_NEAR(relu.lambda(), 1e-8, 1e-14);
  relu.layer.after_step();  // no pass was in training
  EXPECT_NEAR(relu.lambda(), 1e-8, 1e-14);
}

/// A user's own model with several layers, as in README.md.
struct TwoReluLayers : torch::nn::Module {
  TwoReluLayers()
      : layers(make_moe_layers({.d_model = kWidth,
                                .d_ffn = 8,
                                .experts = kExperts,
                                .router = {.method = "remoe"},
                                .layers = 2})) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      register_module("moe_" + std::to_string(i), layers[i]);
      for (auto& parameter : layers[i]->router().parameters())
        parameter.copy_(torch::eye(kExperts));
    }
  }
  void pass(std::size_t layer, std::int64_t rows, std::int64_t experts) {
    at::Tensor x = -at::ones({rows, kWidth});
    x.slice(1, 0, experts).fill_(1);
    layers[layer]->forward(x, {.training = true});
  }
  std::vector<double> lambdas() const {
    std::vector<double> out;
    for (const auto& buffer : named_buffers())
      if (buffer.key().ends_with("lambda")) out.push_back(buffer->item<double>());
    return out;
  }
  std::vector<std::shared_ptr<MoeLayer>> layers;
};

TEST(MoeLayer, LayersMadeTogetherHaveOneLambda) {
  TwoReluLayers model;
  ASSERT_EQ(model.lambdas(), (std::vector<double>{1e-8F}));
  // One layer has 2·4 of 2·4 pairs active, and the other none of 30·4. The sparsity of both is
  // 0.94, above the target, although that of the first layer is below it.
  model.pass(0, 2, 4);
  model.pass(1, 30, 0);
  for (const auto& layer : model.layers) layer->after_step();  // moves λ once
  ASSERT_EQ(model.lambdas().size(), 1U);
  EXPECT_NEAR(model.lambdas()[0], kDown, 1e-14);
  model.pass(1, 4, 4);
  model.layers[0]->after_step();  // one layer's call counts for all layers
  EXPECT_NEAR(model.lambdas()[0], 1e-8, 1e-14);
  const auto term = [&](std::size_t layer) {
    const at::Tensor x = at::ones({2, kWidth});
    return model.layers[layer]->forward(x, {.training = true}).routing.loss.item<double>();
  };
  EXPECT_EQ(term(0), term(1));
}

TEST(MoeLayer, LayersMadeOneByOneHaveALambdaEach) {
  ReluLayer one, other;
  one.pass(true, 6, 2);
  one.layer.after_step();
  EXPECT_NEAR(one.lambda(), kUp, 1e-14);
  EXPECT_NEAR(other.lambda(), 1e-8, 1e-14);
}

TEST(MoeLayer, LayersThatCannotShareAreRefused) {
  MoeOptions options{.d_model = kWidth,
                     .d_ffn = 8,
                     .experts = kExperts,
                     .router = {.method = "loss-free"},
                     .layers = 2};
  const MoeLayer first(options);
  options.layer = 1;
  EXPECT_NO_THROW(MoeLayer(options, first));
  options.layer = 2;
  EXPECT_THROW(MoeLayer(options, first), Error);
  options.layer = 1;
  options.experts = 8;
  EXPECT_THROW(MoeLayer(options, first), Error);
  options.experts = kExperts;
  options.router.method = "remoe";
  EXPECT_THROW(MoeLayer(options, first), Error);
}

/// Each layer's bias follows the loads of its own passes.
TEST(MoeLayer, LoadsReachTheBalancersByLayer) {
  const auto layers = make_moe_layers({.d_model = kWidth,
                                       .d_ffn = 8,
                                       .experts = kExperts,
                                       .router = {.method = "loss-free"},
                                       .layers = 2});
  const torch::NoGradGuard no_grad;
  for (const auto& layer : layers)
    for (auto& parameter : layer->router().parameters()) parameter.copy_(torch::eye(kExperts));
  layers[1]->forward(torch::eye(kExperts).slice(0, 2, 3), {.training = true});  // for expert 2
  layers[1]->after_step();
  const at::Tensor bias = layers[0]->named_buffers()["balancer_0.bias"];
  EXPECT_EQ(bias[0].count_nonzero().item<std::int64_t>(), 0);
  EXPECT_LT(bias[1][2].item<double>(), 0);
  EXPECT_EQ(bias[1].gt(0).sum().item<std::int64_t>(), kExperts - 1);
}

TEST(MoeLayer, NamesOfTheRoutersParameters) {
  TwoReluLayers model;
  EXPECT_EQ(router_parameters(model, {model.layers[0].get(), model.layers[1].get()}),
            (std::set<std::string>{"moe_0.router.scorer.weight", "moe_1.router.scorer.weight"}));
}

TEST(MoeLayer, BalancersOfTheModelAreTheModelsToMove) {
  const MoeOptions options = {
      .d_model = kWidth, .d_ffn = 8, .experts = kExperts, .router = {.method = "remoe"}};
  const auto balancers = make_balancers(resolve(options.router), router_shape(options));
  MoeLayer layer(options, balancers);
  layer.initialize(InitialDraws(1));
  layer.forward(at::ones({3, kWidth}), {.training = true});
  layer.after_step();
  EXPECT_NEAR(balancers[0]->state().at("lambda"), 1e-8, 1e-14);
}

}  // namespace
}  // namespace penstock
