// Every layer's description matches the parameters of the built layer.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/layers/attention.h"
#include "penstock/layers/feed_forward.h"
#include "penstock/layers/moe.h"
#include "penstock/layers/norm.h"
#include "penstock/layers/projection.h"
#include "penstock/layers/relative_attention.h"
#include "penstock/layers/scorer_tensors.h"
#include "penstock/routers/methods.h"
#include "tests/experts/described.h"

namespace penstock::describe_layers {
namespace {

using Names = std::vector<std::string>;

TEST(Describe, Norms) {
  std::vector<ModelTensor> rms, layer;
  RmsNorm::describe(6, LayerTensors(rms, "", ""));
  LayerNorm::describe(6, LayerTensors(layer, "", ""));
  EXPECT_EQ(described_shapes(rms), held_shapes(RmsNorm(6, 1e-5)));
  EXPECT_EQ(described_shapes(layer), held_shapes(LayerNorm(6, 1e-5)));
  for (const ModelTensor& tensor : layer) EXPECT_EQ(tensor.gradient, GradientShare::of_rows);
}

TEST(Describe, AProjection) {
  for (const bool bias : {false, true}) {
    std::vector<ModelTensor> out;
    Projection::describe("one", {{"a", 3, TensorRole::query}, {"b", 2, TensorRole::output}}, 7,
                         bias, LayerTensors(out, "", ""));
    ShapesByName held;
    for (const auto& [name, shape] : held_shapes(Projection(7, 5, bias)))
      held["one." + name] = shape;
    EXPECT_EQ(described_shapes(out), held);
  }
}

TEST(Describe, Attention) {
  AttentionConfig config{.d_model = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
  const auto described = [&] {
    std::vector<ModelTensor> out;
    Attention::describe(config, LayerTensors(out, "", ""));
    EXPECT_EQ(described_shapes(out), held_shapes(Attention(config)));
    return out;
  };
  EXPECT_EQ(file_names(described()),
            (Names{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"}));
  const std::vector<ModelTensor> plain = described();
  const std::vector<std::pair<TensorRole, TensorSplit>> wanted = {
      {TensorRole::query, TensorSplit::rows},
      {TensorRole::key_value, TensorSplit::rows},
      {TensorRole::key_value, TensorSplit::rows},
      {TensorRole::output, TensorSplit::columns}};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(plain[i].role, wanted[i].first) << plain[i].name();
    EXPECT_EQ(plain[i].split, wanted[i].second) << plain[i].name();
  }
  config.q_norm_width = config.k_norm_width = 6;  // each head is normed alone
  EXPECT_EQ(described().back().gradient, GradientShare::of_heads);
  config.q_norm_width = 24;  // all heads are normed together
  config.k_norm_width = 12;
  config.qkv_bias = true;
  EXPECT_EQ(file_names(described()),
            (Names{"q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias", "v_proj.weight",
                   "v_proj.bias", "o_proj.weight", "q_norm.weight", "k_norm.weight"}));
}

TEST(Describe, RelativeAttentionAndItsBiases) {
  const RelativeAttentionConfig config{.d_model = 10, .heads = 3, .head_dim = 4};
  std::vector<ModelTensor> out, biases;
  RelativeAttention::describe(config, LayerTensors(out, "", ""));
  EXPECT_EQ(described_shapes(out), held_shapes(RelativeAttention(config)));
  EXPECT_EQ(file_names(out), (Names{"q_proj.weight", "k_proj.weight", "v_proj.weight",
                                    "r_proj.weight", "o_proj.weight"}));
  PositionBiases::describe(config, LayerTensors(biases, "", ""));
  torch::nn::Module module;
  const PositionBiases registered = PositionBiases::registered(module, config);
  EXPECT_EQ(described_shapes(biases), held_shapes(module));
  EXPECT_TRUE(registered.content.is_same(module.named_parameters()["content_bias"]));
  EXPECT_TRUE(registered.position.is_same(module.named_parameters()["position_bias"]));
}

TEST(Describe, AFeedForward) {
  for (const FfnForm form :
       {FfnForm{}, FfnForm{.activation = ops::Activation::relu, .bias = true}}) {
    std::vector<ModelTensor> out;
    FeedForward::describe(6, 9, form, TensorRole::dense, LayerTensors(out, "", ""));
    EXPECT_EQ(described_shapes(out), held_shapes(FeedForward(6, 9, form)));
    EXPECT_EQ(out.front().role, TensorRole::dense);
    EXPECT_EQ(out.front().split, TensorSplit::rows);
    EXPECT_EQ(out.back().split, form.bias ? TensorSplit::none : TensorSplit::columns);
  }
}

/// The tensors that a layer and its scorer describe, after a check against a layer built with
/// `options`.
std::vector<ModelTensor> described_moe(const MoeOptions& options) {
  const ResolvedRouter router = resolve(options.router);
  MoeLayer layer(options, make_balancers(router, router_shape(options)));
  std::vector<ModelTensor> out;
  const LayerTensors at(out, "", "");
  MoeLayer::describe(options, at);
  describe_scorer(layer.router().scorer(), at);
  EXPECT_EQ(described_shapes(out), held_shapes(layer)) << options.router.method;
  return out;
}

TEST(Describe, AnMoeLayer) {
  MoeOptions options{.d_model = 6, .d_ffn = 8, .experts = 4, .router = {.method = "topk"}};
  EXPECT_EQ(file_names(described_moe(options)),
            (Names{"experts.0.gate_proj.weight", "experts.0.up_proj.weight",
                   "experts.0.down_proj.weight", "gate.weight"}));
  options.shared_width = 5;
  options.shared_gate = true;
  const auto shared = described_moe(options);
  EXPECT_EQ(shared[5].name(), "shared_expert.down_proj.weight");
  EXPECT_EQ(shared[6].name(), "shared_expert_gate.weight");
  EXPECT_EQ(shared[6].role, TensorRole::shared);
  options.form = {.activation = ops::Activation::relu, .bias = true};
  described_moe(options);
}

TEST(Describe, AnMoeLayerOfEveryMethod) {
  for (const auto& method : method_registry().names()) {
    const RouterConfig router{.method = method};
    if (resolve(router).dense()) continue;
    described_moe({.d_model = 12, .d_ffn = 8, .experts = 3, .router = router});
  }
}

}  // namespace
}  // namespace penstock::describe_layers
