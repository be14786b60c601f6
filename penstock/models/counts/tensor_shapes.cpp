#include "penstock/models/counts/tensor_shapes.h"

#include <torch/types.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

/// After a layer's "mlp." in files: what other programs' models have of a router, and the rest.
constexpr std::string_view kGateTensor = "gate.weight", kScorerStem = "router.scorer.";

/// Rows of a fused matrix that files hold as a tensor of their own.
struct Rows {
  const char* name;
  std::int64_t count;
  TensorRole role;
  TensorSplit split = TensorSplit::none;
};

/// Describes what lies under one stem, such as "model.layers.3.mlp.", in the model "layer_3.mlp.".
class Stem {
 public:
  Stem(std::vector<ModelTensor>& out, std::string file, std::string module, std::int64_t layer = -1,
       std::int64_t experts = 0)
      : out_(out),
        file_(std::move(file)),
        module_(std::move(module)),
        layer_(layer),
        experts_(experts) {}

  Stem below(const std::string& name, std::int64_t experts = 0) const {
    return {out_, file_ + name + ".", module_ + name + ".", layer_, experts};
  }
  void add(const std::string& name, const std::string& module, std::vector<std::int64_t> shape,
           TensorRole role, TensorSplit split = TensorSplit::none,
           std::int64_t first_row = 0) const {
    out_.push_back({.stem = file_,
                    .rest = (experts_ > 0 ? "." : "") + name,
                    .shape = std::move(shape),
                    .role = role,
                    .split = split,
                    .layer = layer_,
                    .experts = experts_,
                    .module = module_ + module,
                    .first_row = first_row});
  }
  /// Matrices with `inputs` columns that lie below each other in the parameter `weight`, and where
  /// `bias` is not empty their biases.
  void add_fused(const std::vector<Rows>& parts, std::int64_t inputs, const std::string& weight,
                 const std::string& bias) const {
    std::int64_t first = 0;
    for (const Rows& part : parts) {
      add(part.name + std::string(".weight"), weight, {part.count, inputs}, part.role, part.split,
          first);
      if (!bias.empty())
        add(part.name + std::string(".bias"), bias, {part.count}, TensorRole::rest,
            part.split == TensorSplit::rows ? part.split : TensorSplit::none, first);
      first += part.count;
    }
  }
  /// The same of a Projection.
  void add_projection(const std::string& module, const std::vector<Rows>& parts,
                      std::int64_t inputs, bool bias) const {
    add_fused(parts, inputs, module + ".weight", bias ? module + ".bias" : "");
  }
  void add_feed_forward(const FfnForm& form, std::int64_t d, std::int64_t width,
                        TensorRole role) const {
    const std::string in = form.input_name();
    std::vector<Rows> inputs = {{"up_proj", width, role, TensorSplit::rows}};
    if (form.inputs() == 2)
      inputs.insert(inputs.begin(), {"gate_proj", width, role, TensorSplit::rows});
    add_fused(inputs, d, in, form.bias ? in + "_bias" : "");
    add_fused({{"down_proj", d, role, TensorSplit::columns}}, width, "down",
              form.bias ? "down_bias" : "");
  }
  void add_norm(const std::string& name, std::int64_t width, bool bias = false,
                GradientShare gradient = GradientShare::of_rows) const {
    add(name + ".weight", name + ".weight", {width}, TensorRole::rest);
    out_.back().gradient = gradient;
    if (!bias) return;
    add(name + ".bias", name + ".bias", {width}, TensorRole::rest);
    out_.back().gradient = gradient;
  }
  /// A row for each token.
  void add_embedding(const std::string& name, const std::string& module,
                     std::vector<std::int64_t> shape) const {
    add(name, module, std::move(shape), TensorRole::embedding);
    out_.back().gradient = GradientShare::of_rows;
  }
  /// Parameters and buffers of a module, `named` as files have them.
  void add_module(const torch::nn::Module& part, const std::string& module, TensorRole role,
                  const std::function<std::string(const std::string&)>& named) const {
    for (const auto& tensors : {part.named_parameters(), part.named_buffers()})
      for (const auto& item : tensors) {
        add(named(item.key()), module + item.key(), item.value().sizes().vec(), role);
        out_.back().trained = item.value().requires_grad();
      }
  }

 private:
  std::vector<ModelTensor>& out_;
  std::string file_, module_;
  std::int64_t layer_, experts_;
};

Stem layer_stem(std::vector<ModelTensor>& out, std::int64_t layer) {
  const std::string number = std::to_string(layer) + ".";
  return {out, "model.layers." + number, "layer_" + number, layer};
}

void add_position_biases(const ModelConfig& c, const Stem& at) {
  for (const char* const name : {"content_bias", "position_bias"})
    at.add(name, name, {c.heads, c.head_dim}, TensorRole::rest);
}

void add_attention(const ModelConfig& c, const Stem& at) {
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, d = c.d_model;
  const Rows queries = {"q_proj", q, TensorRole::query, TensorSplit::rows},
             keys = {"k_proj", kv, TensorRole::key_value, TensorSplit::rows},
             values = {"v_proj", kv, TensorRole::key_value, TensorSplit::rows};
  if (c.transformer_xl()) {
    at.add_projection("q_proj", {queries}, d, false);
    at.add_projection("kv_proj", {keys, values}, d, false);
    at.add_projection("r_proj", {{"r_proj", q, TensorRole::distance}}, d, false);
  } else {
    at.add_projection("qkv_proj", {queries, keys, values}, d, c.qkv_bias);
  }
  at.add_projection("o_proj", {{"o_proj", d, TensorRole::output, TensorSplit::columns}}, q, false);
  if (c.norm_of_qk() == QkNorm::none) return;
  at.add_norm("q_norm", c.norm_width(c.heads), /*bias=*/false, GradientShare::of_heads);
  at.add_norm("k_norm", c.norm_width(c.kv_heads), /*bias=*/false, GradientShare::of_heads);
}

void add_layer(const ModelConfig& c, bool moe, const Stem& at) {
  const std::int64_t d = c.d_model;
  if (c.transformer_xl()) {
    if (c.xl.biases_per_layer) add_position_biases(c, at);
    at.add_norm("attention_norm", d, /*bias=*/true);
    at.add_norm("ffn_norm", d, /*bias=*/true);
  } else {
    at.add_norm("input_layernorm", d);
    at.add_norm("post_attention_layernorm", d);
  }
  add_attention(c, at.below("self_attn"));
  const Stem mlp = at.below("mlp");
  if (!moe) return mlp.add_feed_forward(c.ffn_form(), d, c.dense_width(), TensorRole::dense);
  mlp.below("experts", c.total_experts())
      .add_feed_forward(c.ffn_form(), d, c.expert_width(), TensorRole::expert);
  if (c.moe.shared_width > 0)
    mlp.below("shared_expert").add_feed_forward({}, d, c.moe.shared_width, TensorRole::shared);
  if (c.moe.shared_gate)
    mlp.add_projection("shared_expert_gate", {{"shared_expert_gate", 1, TensorRole::shared}}, d,
                       false);
}

}  // namespace

std::int64_t ModelTensor::size() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string scorer_tensor_name(const std::string& key) {
  return key == kScorerWeight ? std::string(kGateTensor) : std::string(kScorerStem) + key;
}

std::optional<ScorerTensor> scorer_tensor(const std::string& name) {
  constexpr std::string_view layers = "model.layers.", mlp = ".mlp.";
  const auto end = name.find(mlp);
  if (!name.starts_with(layers) || end == std::string::npos) return {};
  const std::string rest = name.substr(end + mlp.size());
  const bool gate = rest == kGateTensor;
  if (!gate && !rest.starts_with(kScorerStem)) return {};
  ScorerTensor out{.layer = 0, .parameter = gate ? kScorerWeight : rest.substr(kScorerStem.size())};
  std::from_chars(name.data() + layers.size(), name.data() + end, out.layer);
  return out;
}

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

std::vector<ModelTensor> backbone_tensors(const ModelConfig& c) {
  PENSTOCK_ASSERT(c.is_resolved());
  std::vector<ModelTensor> out;
  const Stem model(out, "model.", ""), head(out, "lm_head.", "");
  const std::int64_t d = c.d_model;
  model.add_embedding("embed_tokens.weight", "embed_tokens", {c.vocab, d});
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    add_layer(c, c.is_moe(layer), layer_stem(out, layer));
  if (!c.transformer_xl()) {
    model.add_norm("norm", d);
    if (!c.tie_embeddings) head.add_embedding("weight", "lm_head", {c.vocab, d});
    return out;
  }
  if (!c.xl.biases_per_layer) add_position_biases(c, model);
  head.add("bias", "head_bias", {c.vocab}, TensorRole::rest);
  const auto clusters = static_cast<std::int64_t>(c.xl.cutoffs.size());
  if (clusters == 0) return out;
  model.add("cluster_weight", "cluster_weight", {clusters, d}, TensorRole::rest);
  model.add("cluster_bias", "cluster_bias", {clusters}, TensorRole::rest);
  return out;
}

std::vector<ModelTensor> model_tensors(const ModelConfig& c) {
  std::vector<ModelTensor> out = backbone_tensors(c);
  const auto scorers = scorers_of(c);
  if (scorers.empty()) return out;
  auto scorer = scorers.begin();
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    if (c.is_moe(layer))
      layer_stem(out, layer)
          .below("mlp")
          .add_module(**scorer++, std::string(kScorerStem), TensorRole::router, scorer_tensor_name);
  const auto balancers = make_balancers(resolve(c.router), router_shape(c.moe_options(0)));
  for (std::size_t i = 0; i < balancers.size(); ++i)
    Stem(out, "penstock.", "")
        .below("balancer_" + std::to_string(i))
        .add_module(*balancers[i], "", TensorRole::balancer, [](const auto& key) { return key; });
  return out;
}

std::map<std::string, std::vector<std::int64_t>> tensor_shapes(const ModelConfig& config) {
  std::map<std::string, std::vector<std::int64_t>> out;
  for (const ModelTensor& tensor : model_tensors(config))
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor.experts); ++e)
      out[tensor.name(e)] = tensor.shape;
  return out;
}

}  // namespace penstock
