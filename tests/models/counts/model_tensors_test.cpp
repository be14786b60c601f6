#include "penstock/models/counts/model_tensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/methods.h"
#include "tests/experts/described.h"

namespace penstock {
namespace {

TEST(ScorerTensor, IsKnownByItsNameInFiles) {
  const auto gate = scorer_tensor("model.layers.11.mlp.gate.weight");
  ASSERT_TRUE(gate);
  EXPECT_EQ(gate->layer, 11);
  EXPECT_EQ(gate->parameter, "weight");
  const auto network = scorer_tensor("model.layers.0.mlp.router.scorer.network.w1");
  ASSERT_TRUE(network);
  EXPECT_EQ(network->layer, 0);
  EXPECT_EQ(network->parameter, "network.w1");
  for (const char* const other :
       {"model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.shared_expert_gate.weight",
        "model.layers.1.self_attn.q_proj.weight", "lm_head.weight", "mlp.gate.weight", ""})
    EXPECT_FALSE(scorer_tensor(other)) << other;
}

using NamedShapes = ShapesByName;

ModelConfig with_everything() {
  ModelConfig config;
  config.vocab = 11;
  config.d_model = 12;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 2;
  config.d_ffn = 10;
  config.context = 16;
  config.qkv_bias = config.qk_norm = config.tie_embeddings = true;
  config.moe = {.experts = 3, .granularity = 2, .every = 2, .shared_width = 7, .shared_gate = true};
  return config;
}

NamedShapes built(const ModelConfig& config) {
  NamedShapes out;
  const auto model = make_model(config, 1);
  for (const auto& [name, tensor] : file_tensors(*model)) out[name] = tensor.sizes().vec();
  EXPECT_EQ(described_shapes(model_tensors(config.resolved())), held_shapes(*model));
  return out;
}

TEST(TensorShapes, AreThoseOfTheModelForEveryMethod) {
  for (const auto& method : method_registry().names()) {
    ModelConfig config = with_everything();
    config.router.method = method;
    // Some methods choose a fixed number of experts, which granularity would multiply.
    if (method != "topk" && method != "remoe") config.moe.granularity = 1;
    EXPECT_EQ(tensor_shapes(config.resolved()), built(config)) << method;
  }
}

TEST(TensorShapes, AreThoseOfTheModelForEveryArchitecture) {
  ModelConfig plain = with_everything();
  plain.qkv_bias = plain.qk_norm = plain.tie_embeddings = false;
  EXPECT_EQ(tensor_shapes(plain.resolved()), built(plain));
  plain.qk_norm_per_head = true;
  plain.moe.dense_layers = 1;
  plain.moe.dense_width = 9;
  plain.router.method = "topk";
  EXPECT_EQ(tensor_shapes(plain.resolved()), built(plain));
  EXPECT_EQ(built(plain).at("model.layers.2.mlp.up_proj.weight").front(), 9);
  EXPECT_EQ(built(plain).at("model.layers.1.self_attn.k_norm.weight").front(), 2);
  plain.qk_norm_per_head = false;
  plain.architecture = ModelKind::transformer_xl;
  plain.kv_heads = plain.heads;
  plain.moe = {.experts = 3, .every = 2};
  plain.xl.cutoffs = {4, 7};
  EXPECT_EQ(tensor_shapes(plain.resolved()), built(plain));
  plain.xl.biases_per_layer = true;
  EXPECT_EQ(tensor_shapes(plain.resolved()), built(plain));
}

TEST(TensorShapes, NameTheSharedExpertAsQwen2MoeDoes) {
  ModelConfig config = with_everything();
  config.router.method = "topk";
  const NamedShapes shapes = tensor_shapes(config.resolved());
  const std::string mlp = "model.layers.2.mlp.";
  EXPECT_EQ(shapes.at(mlp + "shared_expert.gate_proj.weight"), (std::vector<std::int64_t>{7, 12}));
  EXPECT_EQ(shapes.at(mlp + "shared_expert.down_proj.weight"), (std::vector<std::int64_t>{12, 7}));
  EXPECT_EQ(shapes.at(mlp + "shared_expert_gate.weight"), (std::vector<std::int64_t>{1, 12}));
  EXPECT_EQ(shapes.at(mlp + "experts.5.up_proj.weight"), (std::vector<std::int64_t>{5, 12}));
  EXPECT_EQ(shapes.at(mlp + "gate.weight"), (std::vector<std::int64_t>{6, 12}));
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.q_norm.weight"), std::vector<std::int64_t>{8});
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.k_norm.weight"), std::vector<std::int64_t>{4});
}

}  // namespace
}  // namespace penstock
