#include "penstock/convert/upcycle/calibration.h"

#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "penstock/base/error.h"
#include "penstock/convert/upcycle/expert_copies.h"
#include "penstock/convert/window_passes.h"
#include "penstock/models/config_shaped_source.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/files/stored_model.h"
#include "penstock/models/module_names.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock {
namespace {

/// The number of windows [n, L] in one pass. Long windows give fewer, so that memory is bounded.
std::int64_t rows_of_pass(const at::Tensor& windows) {
  constexpr std::int64_t kMostTokens = 1024, kMostRows = 8;
  return std::clamp<std::int64_t>(kMostTokens / windows.size(1), 1, kMostRows);
}

/// Keys [.., T, w] rotated by position as causal attention rotates them.
at::Tensor rotated(const at::Tensor& keys, const ModelConfig& config) {
  const std::int64_t half = config.head_dim / 2;
  const at::Tensor table =
      ops::rotation_table(keys.size(-2), config.head_dim, config.rope_base, keys.options());
  const at::Tensor cosine = table.slice(-1, 0, half), sine = table.slice(-1, half);  // [T, hd/2]
  if (config.rope_adjacent) {
    const at::Tensor pairs = keys.reshape({keys.size(0), keys.size(1), keys.size(2), half, 2});
    const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return at::stack({a * cosine - b * sine, a * sine + b * cosine}, -1).reshape(keys.sizes());
  }
  const at::Tensor a = keys.slice(-1, 0, half), b = keys.slice(-1, half);
  return at::cat({a * cosine - b * sine, a * sine + b * cosine}, -1);
}

/// The rows of the embedding. Reads them in the mapped file if that is possible.
at::Tensor embedded(const ModelSource& dense, const at::Tensor& tokens) {
  const std::string name = kEmbeddingsTensor;
  if (const auto stored = dense.stored(name))
    return ops::embedding({.depth = dense.config().d_model, .pieces = {*stored}}, tokens);
  return ops::embedding(dense.tensor(name).to(at::kFloat), tokens);
}

/// Computes the mean key of each head in one layer.
class KeySum {
 public:
  KeySum(const ModelSource& dense, std::int64_t layer, const KeyOptions& options)
      : config_(dense.config()), options_(options) {
    const std::string stem = layer_stem(layer);
    const auto numbers = [&](const char* name) { return dense.tensor(stem + name).to(at::kFloat); };
    gain_ = numbers("input_layernorm.weight");
    const std::string name = stem + "self_attn.k_proj.weight";
    if (const auto stored = dense.stored(name))
      stored_ = {.depth = config_.d_model, .pieces = {*stored}};
    else
      weight_ = numbers("self_attn.k_proj.weight");
    if (config_.qkv_bias && options.bias) bias_ = numbers("self_attn.k_proj.bias");
    sum_ = at::zeros({config_.kv_heads, config_.head_dim}, at::kDouble);
  }

  /// @param input [B, T, d], the residual stream at the layer's input
  void add(const at::Tensor& input) {
    at::Tensor keys = ops::linear(ops::rms_norm(input, gain_, config_.norm_eps), weight_, stored_,
                                  ops::if_defined(bias_))
                          .view({input.size(0), input.size(1), config_.kv_heads, config_.head_dim})
                          .transpose(1, 2);  // [B, G, T, hd]
    if (options_.after_rope) keys = rotated(keys, config_);
    sum_ += keys.sum(at::IntArrayRef{0, 2}, false, at::kDouble);
    tokens_ += input.size(0) * input.size(1);
  }

  /// The mean key of each head, [H, hd] f32.
  at::Tensor mean() const {
    return (sum_ / static_cast<double>(tokens_))
        .to(at::kFloat)
        .repeat_interleave(config_.heads / config_.kv_heads, 0);
  }

 private:
  const ModelConfig& config_;
  KeyOptions options_;
  at::Tensor gain_, weight_, bias_;
  ops::StoredMatrix stored_;  // in place of the weight, if products can read the file
  at::Tensor sum_;            // [G, hd] f64
  std::int64_t tokens_ = 0;
};

/// The dense model with two experts for each feed-forward. Both experts read the same tensors. The
/// routers are zeros.
class TwoCopies : public ConfigShapedSource {
 public:
  explicit TwoCopies(const ModelSource& dense)
      : ConfigShapedSource(config_of(dense), dense.origin()), dense_(dense) {}
  at::Tensor tensor(const std::string& name) const override {
    return routes(name) ? at::zeros(shape(name)) : dense_.tensor(parent_name(name));
  }
  std::optional<ops::StoredRows> stored(const std::string& name) const override {
    return routes(name) ? std::nullopt : dense_.stored(parent_name(name));
  }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return dense_.tokenizer(); }

 private:
  static ModelConfig config_of(const ModelSource& dense) {
    ModelConfig config = dense.config();
    config.moe = {.experts = 2};
    config.router = plain_router({.k = 2});
    return config.resolved();
  }
  static bool routes(const std::string& name) { return name.ends_with(".mlp.gate.weight"); }

  const ModelSource& dense_;
};

}  // namespace

std::vector<at::Tensor> mean_keys(const ModelSource& dense, const at::Tensor& windows,
                                  const KeyOptions& options, const ConversionProgress& progress) {
  const ModelConfig& config = dense.config();
  PENSTOCK_CHECK(!config.has_memory() && config.moe_layers() == 0, dense.origin(),
                 ": keys are collected from a dense decoder");
  PENSTOCK_CHECK(config.norm_of_qk() == QkNorm::none && config.clip_qkv == 0, dense.origin(),
                 ": keys that are normed or clipped before attention uses them are not collected: "
                 "Router Upcycling knows none such; take another options.method");
  const auto model = open_model(dense);
  std::vector<KeySum> sums;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    sums.emplace_back(dense, layer, options);
  const HiddenTap next_layer = [&](std::int64_t layer, const at::Tensor& hidden) {
    if (layer + 1 < config.layers) sums[static_cast<std::size_t>(layer + 1)].add(hidden);
  };
  const auto pass = [&](const at::Tensor& tokens) {
    sums[0].add(embedded(dense, tokens));
    model->forward({.tokens = tokens}, {}, {}, next_layer);
  };
  run_over_windows(*model, windows, rows_of_pass(windows), pass, "keys over the text", progress);
  std::vector<at::Tensor> out;
  for (const KeySum& sum : sums) out.push_back(sum.mean());
  return out;
}

void visit_feed_forward_inputs(
    const ModelSource& dense, const at::Tensor& windows,
    const std::function<void(std::int64_t layer, const at::Tensor& inputs)>& visit,
    const ConversionProgress& progress) {
  const TwoCopies copies(dense);
  const auto model = open_model(copies);
  const RoutingTap tap = [&](std::int64_t layer, const RoutingResult& result) {
    visit(layer, result.hidden);
  };
  const auto pass = [&](const at::Tensor& tokens) { model->forward({.tokens = tokens}, {}, tap); };
  run_over_windows(*model, windows, rows_of_pass(windows), pass, "routers over the text", progress);
}

}  // namespace penstock
