// The step of one layer: its gradients come from the direction and from the router's loss, and an
// update that cannot be made reports why.
#include "penstock/train/step/layer_step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace penstock {
namespace {

class LayerStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(4);
    MoeOptions options{.d_model = 6, .d_ffn = 8, .experts = 4, .init_std = 0.5, .output_std = 0.5};
    options.router.method = "switch";
    options.router.parts["load-balance"].set("coefficient", 0.5);
    layer_ = std::make_shared<MoeLayer>(options);
    layer_->initialize(InitialDraws(1));
    layer_->to(torch::kDouble);
    x_ = torch::randn({5, 6}, torch::kDouble);
    direction_ = torch::randn({5, 6}, torch::kDouble);
  }
  LayerStep step(const OptimizerConfig& config = {}) {
    return {*layer_, [this](const auto& x, const auto& how) { return layer_->forward(x, how); },
            config};
  }
  std::map<std::string, at::Tensor> gradients() const {
    std::map<std::string, at::Tensor> out;
    for (const auto& item : layer_->named_parameters())
      if (item.value().grad().defined()) out[item.key()] = item.value().grad().clone();
    return out;
  }

  /// A context with the same draws each time.
  static RoutingContext context() {
    RoutingContext out{.total_steps = 1, .training = true};
    out.generator = at::detail::createCPUGenerator(3);
    return out;
  }
  at::Tensor weights() const {
    std::vector<at::Tensor> out;
    for (const at::Tensor& parameter : layer_->parameters())
      out.push_back(parameter.detach().flatten());
    return torch::cat(out);
  }

  std::shared_ptr<MoeLayer> layer_;
  at::Tensor x_, direction_;
};

TEST_F(LayerStepTest, GradientsAreOfTheDirectionAndOfTheRoutersLoss) {
  LayerStep measured = step({.clip = 0});
  const LayerStepOutcome out = measured.advance(x_, direction_, context(), 0);
  const auto found = gradients();
  EXPECT_EQ(out.update.failure, "");
  EXPECT_GT(out.output.routing.loss.item<double>(), 0.1);
  for (const at::Tensor& parameter : layer_->parameters()) parameter.mutable_grad() = at::Tensor();
  const MoeOutput by_hand = layer_->forward(x_, context());
  ((by_hand.y * direction_).sum() + by_hand.routing.loss).backward();
  const auto wanted = gradients();
  EXPECT_GT(wanted.size(), 2U);
  for (const auto& [name, gradient] : wanted)
    EXPECT_LT((found.at(name) - gradient).abs().max().item<double>(), 1e-12) << name;
}

TEST_F(LayerStepTest, NoLearningRateMovesNothingButTheMoments) {
  const at::Tensor before = weights();
  LayerStep still = step({.weight_decay = 0});
  still.advance(x_, direction_, context(), 0);
  EXPECT_TRUE(torch::equal(weights(), before));
  for (const auto& [name, moment] : still.optimizer().state())
    EXPECT_GT(moment.abs().max().item<double>(), 0) << name;
  still.advance(x_, direction_, context(), 0.1);
  EXPECT_FALSE(torch::equal(weights(), before));
}

TEST_F(LayerStepTest, ALayerWhoseWeightsAreFrozenIsOnlyPassed) {
  for (const at::Tensor& parameter : layer_->parameters()) parameter.set_requires_grad(false);
  const at::Tensor before = weights();
  LayerStep frozen = step();
  const LayerStepOutcome out = frozen.advance(x_, direction_, context(), 0.1);
  EXPECT_EQ(out.update.failure, "");
  EXPECT_EQ(out.update.gradient_norm, 0);
  EXPECT_TRUE(torch::equal(weights(), before));
}

TEST_F(LayerStepTest, AGradientThatIsNotFiniteIsNamed) {
  const at::Tensor before = weights();
  direction_[0][0] = std::numeric_limits<double>::infinity();
  LayerStep broken = step();
  EXPECT_NE(broken.advance(x_, direction_, context(), 0.1).update.failure, "");
  EXPECT_TRUE(torch::equal(weights(), before));
}

}  // namespace
}  // namespace penstock
