// Folded models against the models that they come from, over all scorers that fold and both
// architectures.
#include "penstock/models/fold_routers.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/registry.h"
#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

ModelConfig two_layers(const std::string& method, ModelKind architecture = ModelKind::decoder) {
  ModelConfig config = testing::tiny_decoder(method, /*context=*/8, /*vocab=*/20);
  config.architecture = architecture;
  config.router.k = 2;
  return config;
}

at::Tensor hidden(LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  return model.forward({.tokens = torch::arange(16, at::kLong).view({2, 8})}, {}).hidden;
}

TEST(FoldRouters, ComputesWhatTheModelDoes) {
  int folded = 0;
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl})
    for (const char* selector : {"topk", "relu"})
      for (const std::string& scorer : scorer_registry().names()) {
        if (!scorer_registry().at(scorer).traits.foldable) continue;
        SCOPED_TRACE(std::string(word(architecture)) + " " + selector + " " + scorer);
        ModelConfig config = two_layers("topk", architecture);
        config.router.scorer = scorer;
        config.router.selector = selector;
        config.router.balancers = std::vector<std::string>();
        torch::manual_seed(3);
        const auto model = make_model(config, 1);
        const auto plain = fold_routers(*model);
        EXPECT_EQ(resolve(plain->config().router).scorer, "linear");
        const at::Tensor wanted = hidden(*model);
        EXPECT_LT((hidden(*plain) - wanted).abs().max().item<double>(),
                  1e-5 * wanted.abs().max().item<double>());
        EXPECT_EQ(plain->config().moe_layers(), 2);
        ++folded;
      }
  EXPECT_GE(folded, 16);
}

TEST(FoldRouters, AHypernetworkBecomesItsMatrixBitwiseAndIsGone) {
  ModelConfig config = two_layers("hyperrouter", ModelKind::transformer_xl);
  torch::manual_seed(4);
  const auto model = make_model(config, 1);
  const auto plain = fold_routers(*model);
  EXPECT_TRUE(torch::equal(hidden(*plain), hidden(*model)));
  for (const auto& [name, tensor] : file_tensors(*plain))
    EXPECT_EQ(name.find("network"), std::string::npos) << name;
  // Folding again changes nothing.
  EXPECT_TRUE(torch::equal(hidden(*fold_routers(*plain)), hidden(*model)));
}

/// Evaluation folds a hypernetwork by itself. So the test compares the folded model with a training
/// pass without dropout, which generates the router anew.
TEST(FoldRouters, AFoldedHypernetworkIsTheRouterOfTraining) {
  ModelConfig config = two_layers("hyperrouter");
  torch::manual_seed(4);
  const auto model = make_model(config, 1);
  const auto plain = fold_routers(*model);
  const auto logits = [](LanguageModel& of, bool training) {
    std::vector<at::Tensor> out;
    of.forward({.tokens = torch::arange(16, at::kLong).view({2, 8})}, {.training = training},
               [&](std::int64_t, const RoutingResult& routing) {
                 out.push_back(routing.scores.logits.detach());
               });
    return out;
  };
  const auto trained = logits(*model, true), folded = logits(*plain, false);
  ASSERT_EQ(trained.size(), 2U);
  for (std::size_t layer = 0; layer < 2; ++layer)
    EXPECT_LT((trained[layer] - folded[layer]).abs().max().item<double>(),
              1e-5 * trained[layer].abs().max().item<double>());
}

/// A bias of the choice is not part of the scorer, so it stays, under another name in files.
TEST(FoldRouters, KeepsABiasOfTheChoice) {
  ModelConfig config = two_layers("loss-free");
  config.router.scorer = "mixture";
  config.router.balancers = std::vector<std::string>{"z-loss", "loss-free"};
  torch::manual_seed(3);
  const auto model = make_model(config, 1);
  const at::Tensor unbiased = hidden(*model);
  {
    const torch::NoGradGuard no_grad;
    for (auto& [name, tensor] : file_tensors(*model))
      if (name == "penstock.balancer_1.bias") tensor.normal_();
  }
  const at::Tensor wanted = hidden(*model);
  EXPECT_FALSE(torch::equal(wanted, unbiased));
  const auto plain = fold_routers(*model);
  EXPECT_EQ(plain->config().router.balancers, (std::vector<std::string>{"loss-free"}));
  EXPECT_LT((hidden(*plain) - wanted).abs().max().item<double>(),
            1e-5 * wanted.abs().max().item<double>());
}

/// A balancer that biases the choice only under one of its options stays only under that option.
TEST(FoldRouters, KeepsAShiftThatAnOptionAsksFor) {
  for (const std::string controller : {"paper", "hold"}) {
    ModelConfig config = two_layers("remoe");
    config.router.scorer = "mixture";
    config.router.parts["adaptive-l1"].set("controller", controller);
    torch::manual_seed(3);
    const auto model = make_model(config, 1);
    const at::Tensor unbiased = hidden(*model);
    for (auto& [name, tensor] : file_tensors(*model))
      if (name == "penstock.balancer_0.mean_bias") tensor.fill_(0.05);
    const at::Tensor wanted = hidden(*model);
    EXPECT_EQ(torch::equal(wanted, unbiased), controller == "paper");
    const auto plain = fold_routers(*model);
    EXPECT_EQ(plain->config().router.balancers->size(), controller == "hold" ? 1U : 0U);
    EXPECT_LT((hidden(*plain) - wanted).abs().max().item<double>(),
              1e-5 * wanted.abs().max().item<double>());
  }
}

TEST(FoldRouters, RefusesWhatNoMatrixReplaces) {
  ModelConfig config = two_layers("topk");
  config.router.scorer = "mlp";
  EXPECT_THROW(fold_routers(*make_model(config, 1)), Error);
  EXPECT_THROW(fold_routers(*make_model(two_layers("dense"), 1)), Error);
}

}  // namespace
}  // namespace penstock
