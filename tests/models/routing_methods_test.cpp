// Every routing method in the decoder: gradients reach the trained parameters and no others, and a
// saved and loaded model gives the same outputs.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/models/decoder.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/routers/methods.h"

namespace penstock {
namespace {

ModelConfig three_layers(const std::string& method) {
  ModelConfig config{.vocab = 20, .d_model = 16, .layers = 3, .heads = 2, .d_ffn = 12};
  config.init_std = 0.2;
  config.moe.experts = 4;
  config.router.method = method;
  const ResolvedRouter router = resolve(config.router);
  if (router.traits.has_k) config.router.k = 2;
  if (router.selector == "lory") config.router.parts["lory"].set("segment_length", 4);
  return config;
}

ModelInput two_rows() { return {.tokens = torch::arange(16, at::kLong).view({2, 8})}; }

at::Tensor hidden(Decoder& model) {
  torch::NoGradGuard no_grad;
  return model.forward(two_rows(), {}).hidden;
}

TEST(RoutingMethods, GradientsReachWhatIsTrainedAndNothingElse) {
  for (const std::string& method : method_registry().names()) {
    SCOPED_TRACE(method);
    torch::manual_seed(1);
    Decoder model(three_layers(method));
    model.initialize(InitialDraws(1));
    RoutingContext context{.step = 5, .total_steps = 10, .training = true};
    const ModelOutput out = model.forward(two_rows(), context);
    at::Tensor loss = model.logits(out.hidden).square().mean();
    if (out.auxiliary_loss.defined()) loss = loss + out.auxiliary_loss;
    loss.backward();
    bool router_moves = false;
    for (const auto& parameter : model.named_parameters()) {
      const at::Tensor& grad = parameter.value().grad();
      if (!parameter.value().requires_grad()) {
        EXPECT_FALSE(grad.defined()) << parameter.key();
      }
      if (parameter.key().find(".scorer.") != std::string::npos)
        router_moves |= grad.defined() && grad.abs().max().item<double>() > 0;
    }
    if (method != "dense") {
      EXPECT_EQ(router_moves, resolve(model.config().router).traits.trainable) << method;
    }
  }
}

TEST(RoutingMethods, ASavedModelSaysTheSameWhenLoaded) {
  for (const std::string& method : method_registry().names()) {
    SCOPED_TRACE(method);
    torch::manual_seed(1);
    Decoder model(three_layers(method));
    model.initialize(InitialDraws(1));
    const at::Tensor before = hidden(model);
    EXPECT_TRUE(before.equal(hidden(model)));
    torch::manual_seed(2);
    Decoder other(three_layers(method));
    other.initialize(InitialDraws(2));
    load_file_tensors(other, file_tensors(model), "test");
    EXPECT_TRUE(before.equal(hidden(other)));
  }
}

TEST(RoutingMethods, AHypernetworkForAllLayersIsSavedOnce) {
  const auto networks = [](bool share) {
    ModelConfig config = three_layers("hyperrouter");
    config.router.parts["hypernetwork"].set("share", share);
    torch::manual_seed(1);
    Decoder model(config), other(config);
    model.initialize(InitialDraws(1));
    other.initialize(InitialDraws(9));
    std::vector<std::string> names;
    for (const auto& [name, tensor] : file_tensors(model))
      if (name.find("network.w2") != std::string::npos) names.push_back(name);
    load_file_tensors(other, file_tensors(model), "test");
    EXPECT_TRUE(hidden(model).equal(hidden(other)));
    return names;
  };
  EXPECT_EQ(networks(true),
            (std::vector<std::string>{"model.layers.0.mlp.router.scorer.network.w2"}));
  EXPECT_EQ(networks(false).size(), 3U);
}

}  // namespace
}  // namespace penstock
