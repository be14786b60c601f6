#include "penstock/analysis/routing_trace.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "tests/base/error_of.h"

namespace penstock::analysis {
namespace {

ModelConfig traced_config(const std::string& method) {
  ModelConfig config{.vocab = 17, .d_model = 8, .layers = 3, .heads = 2, .d_ffn = 10};
  config.context = 12;
  config.router.method = method;
  config.moe.experts = 5;
  config.moe.every = 2;  // layers 0 and 2
  return config;
}

const std::vector<std::int64_t> kTraced = {1, 16, 0, 3, 3, 9, 12};

TEST(RoutingTrace, HoldsWhatTheFormulasGiveOfTheWeights) {
  torch::manual_seed(5);
  ModelConfig config = traced_config("topk");
  config.router.k = 2;
  config.router.init_std = 0.5;
  config.norm_eps = 1e-12;
  const auto model = make_model(config, 1);
  model->to(torch::kDouble);
  const auto trace = trace_routing(*model, kTraced);
  EXPECT_EQ(trace.size(), 7u);
  EXPECT_TRUE(torch::equal(trace.at("tokens"), torch::tensor(kTraced, torch::kInt64)));
  const auto weights = file_tensors(*model);
  for (const std::string layer : {"0", "2"}) {
    const at::Tensor input = trace.at("layers." + layer + ".router_input");
    const at::Tensor logits =
        input.matmul(weights.at("model.layers." + layer + ".mlp.gate.weight").t());
    EXPECT_TRUE(torch::allclose(trace.at("layers." + layer + ".logits"), logits, 0, 1e-12));
    const at::Tensor probabilities = logits.softmax(1);
    const at::Tensor kth = std::get<0>(probabilities.topk(2, 1)).select(1, 1).unsqueeze(1);
    EXPECT_TRUE(torch::allclose(trace.at("layers." + layer + ".gates"),
                                probabilities * probabilities.ge(kth), 0, 1e-12));
    EXPECT_EQ(trace.at("layers." + layer + ".gates").gt(0).sum().item<std::int64_t>(), 14);
  }
  // Layer 0 reads the normed sum of the embeddings and attention: rows with mean square 1.
  const at::Tensor squares = trace.at("layers.0.router_input").square().mean(1);
  EXPECT_TRUE(torch::allclose(squares, torch::ones({7}, torch::kDouble), 0, 1e-6));
}

TEST(RoutingTrace, LeavesOutLogitsWhereNoneAre) {
  const auto model = make_model(traced_config("hash"), 1);
  const auto trace = trace_routing(*model, kTraced);
  EXPECT_FALSE(trace.contains("layers.0.logits"));
  const at::Tensor experts = torch::tensor(kTraced, torch::kInt64).remainder(5);
  EXPECT_TRUE(
      torch::equal(trace.at("layers.2.gates"), torch::one_hot(experts, 5).to(torch::kFloat)));
}

TEST(RoutingTrace, RefusesWhatHasNothingToTrace) {
  const auto refuses = [](const ModelConfig& config, const std::vector<std::int64_t>& tokens,
                          const std::string& part) {
    const auto model = make_model(config, 1);
    testing::expect_error([&] { trace_routing(*model, tokens); }, {part});
  };
  refuses(traced_config("dense"), kTraced, "dense");
  ModelConfig lory = traced_config("lory");
  lory.router.parts["lory"].set("segment_length", 4);
  refuses(lory, std::vector<std::int64_t>(8, 1), "segments");
  refuses(traced_config("topk"), {}, "no tokens");
  refuses(traced_config("topk"), {1, 17}, "token 17");
  refuses(traced_config("topk"), {-1}, "token -1");
  refuses(traced_config("topk"), std::vector<std::int64_t>(13, 1), "context of 12");
}

}  // namespace
}  // namespace penstock::analysis
