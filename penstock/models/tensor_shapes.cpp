#include "penstock/models/tensor_shapes.h"

#include <torch/types.h>

#include "penstock/models/tensor_names.h"

namespace penstock {
namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

void add_attention(const ModelConfig& c, const std::string& stem, Shapes& out) {
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const auto projection = [&](const char* name, std::int64_t width) {
    out[stem + name + ".weight"] = {width, c.d_model};
    if (c.qkv_bias) out[stem + name + ".bias"] = {width};
  };
  projection("q_proj", q);
  projection("k_proj", kv);
  projection("v_proj", kv);
  out[stem + "o_proj.weight"] = {c.d_model, q};
  if (!c.qk_norm) return;
  out[stem + "q_norm.weight"] = {q};
  out[stem + "k_norm.weight"] = {kv};
}

void add_feed_forward(std::int64_t d, std::int64_t width, const std::string& stem, Shapes& out) {
  out[stem + "gate_proj.weight"] = {width, d};
  out[stem + "up_proj.weight"] = {width, d};
  out[stem + "down_proj.weight"] = {d, width};
}

void add_moe(const ModelConfig& c, Scorer& scorer, const std::string& stem, Shapes& out) {
  const auto add = [&](const auto& items) {
    for (const auto& item : items)
      out[stem + (item.key() == "weight" ? "gate.weight" : "router.scorer." + item.key())] =
          item.value().sizes().vec();
  };
  add(scorer.named_parameters());
  add(scorer.named_buffers());
  for (std::int64_t e = 0; e < c.total_experts(); ++e)
    add_feed_forward(c.d_model, c.expert_width(), stem + "experts." + std::to_string(e) + ".", out);
  if (c.moe.shared_width > 0)
    add_feed_forward(c.d_model, c.moe.shared_width, stem + "shared_expert.", out);
  if (c.moe.shared_gate) out[stem + "shared_expert_gate.weight"] = {1, c.d_model};
}

void add_balancers(const ModelConfig& c, Shapes& out) {
  const auto balancers = make_balancers(resolve(c.router), router_shape(c.moe_options(0)));
  for (std::size_t i = 0; i < balancers.size(); ++i) {
    const std::string stem = "penstock.balancer_" + std::to_string(i) + ".";
    for (const auto& item : balancers[i]->named_parameters())
      out[stem + item.key()] = item.value().sizes().vec();
    for (const auto& item : balancers[i]->named_buffers())
      out[stem + item.key()] = item.value().sizes().vec();
  }
}

}  // namespace

std::shared_ptr<Scorer> scorer_of(const ModelConfig& config, std::int64_t moe_layer) {
  const MoeOptions options = config.moe_options(moe_layer);
  return make_scorer(resolve(options.router), router_shape(options));
}

std::shared_ptr<Selector> selector_of(const ModelConfig& config) {
  const MoeOptions options = config.moe_options(0);
  return make_selector(resolve(options.router), router_shape(options));
}

std::vector<std::shared_ptr<Scorer>> scorers_of(const ModelConfig& config) {
  std::vector<std::shared_ptr<Scorer>> out;
  for (std::int64_t layer = 0; layer < config.moe_layers(); ++layer) {
    out.push_back(scorer_of(config, layer));
    out.back()->share(*out.front());
  }
  return out;
}

Shapes tensor_shapes(const ModelConfig& config) {
  const ModelConfig c = config.resolved();
  Shapes out;
  if (c.transformer_xl()) {
    for (const auto& [name, tensor] : file_tensors(*make_model(c)))
      out[name] = tensor.sizes().vec();
    return out;
  }
  out["model.embed_tokens.weight"] = {c.vocab, c.d_model};
  out["model.norm.weight"] = {c.d_model};
  if (!c.tie_embeddings) out["lm_head.weight"] = {c.vocab, c.d_model};
  const auto scorers = scorers_of(c);
  std::size_t moe_index = 0;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string stem = "model.layers." + std::to_string(layer) + ".";
    out[stem + "input_layernorm.weight"] = {c.d_model};
    out[stem + "post_attention_layernorm.weight"] = {c.d_model};
    add_attention(c, stem + "self_attn.", out);
    if (c.is_moe(layer))
      add_moe(c, *scorers[moe_index++], stem + "mlp.", out);
    else
      add_feed_forward(c.d_model, c.d_ffn, stem + "mlp.", out);
  }
  if (!scorers.empty()) add_balancers(c, out);
  return out;
}

}  // namespace penstock
