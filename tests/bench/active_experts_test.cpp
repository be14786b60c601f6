// The shift that holds a stated number of active experts.
#include "penstock/bench/active_experts.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

namespace penstock::bench {
namespace {

std::int64_t positive(const at::Tensor& logits, double target) {
  return (logits + shift_for(logits, target)).gt(0).sum().item<std::int64_t>();
}

TEST(ShiftFor, LeavesTheAskedNumberPositive) {
  torch::manual_seed(5);
  for (const std::int64_t tokens : {1, 7, 500}) {
    const at::Tensor logits = torch::randn({tokens, 12}) * 0.3 - 2;
    for (const double target : {0.0, 0.5, 1.0, 3.3, 11.9, 12.0, 99.0})
      EXPECT_EQ(positive(logits, target),
                std::clamp<std::int64_t>(std::llround(target * static_cast<double>(tokens)), 0,
                                         12 * tokens))
          << tokens << " tokens, target " << target;
  }
  EXPECT_EQ(shift_for(torch::zeros({0, 4}), 1), 0);
}

/// Two layers with ReLU routing. Each layer's logits equal its input.
struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    layers = make_moe_layers(
        {.d_model = 2, .d_ffn = 4, .experts = 2, .router = {.method = "remoe"}, .layers = 2});
    const torch::NoGradGuard no_grad;
    for (auto& layer : layers) {
      register_module("layer_" + std::to_string(children().size()), layer);
      layer->router().parameters().front().copy_(torch::eye(2));
    }
  }
  at::Tensor logits(std::size_t layer, const at::Tensor& x) {
    return layers[layer]->forward(x).routing.scores.logits;
  }
  std::vector<std::shared_ptr<MoeLayer>> layers;
};

TEST(ActiveExperts, RepeatsTheShiftsOfEachCallInOrder) {
  const torch::NoGradGuard no_grad;
  TwoLayers model;
  const std::size_t parameters = model.parameters().size();
  ActiveExperts active(1, {model.layers[0].get(), model.layers[1].get()});
  EXPECT_EQ(model.parameters().size(), parameters);
  const at::Tensor first = torch::tensor({{3.0f, 1.0f}}), second = torch::tensor({{-4.0f, -8.0f}});
  active.find();
  EXPECT_TRUE(model.logits(0, first).equal(first - 2));
  EXPECT_TRUE(model.logits(1, second).equal(second + 6));
  active.repeat();
  EXPECT_TRUE(model.logits(0, second).equal(second - 2));
  EXPECT_TRUE(model.logits(1, first).equal(first + 6));
}

}  // namespace
}  // namespace penstock::bench
