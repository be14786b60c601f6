#include "penstock/layers/attention.h"

#include <torch/types.h>

#include <cmath>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/cached_attention.h"
#include "penstock/ops/ops.h"

namespace penstock {

Attention::Attention(const AttentionConfig& config, RankRows rows)
    : config_(config), rows_(std::move(rows)) {
  const int parts = rows_.ranks().size();
  PENSTOCK_ASSERT(config.heads % parts == 0 && config.kv_heads % parts == 0);
  PENSTOCK_ASSERT(parts == 1 || config.q_norm_width <= config.head_dim, "a norm over all heads");
  config_.heads /= parts;
  config_.kv_heads /= parts;
  const std::int64_t query_width = config_.heads * config.head_dim;
  const std::int64_t kv_width = config_.kv_heads * config.head_dim;
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return register_module(name, std::make_shared<Projection>(in, out, bias));
  };
  qkv_proj_ = projection("qkv_proj", config.d_model, query_width + 2 * kv_width, config.qkv_bias);
  o_proj_ = projection("o_proj", query_width, config.d_model, false);
  if (config.q_norm_width == 0) return;
  const auto norm = [&](const char* name, std::int64_t width) {
    return register_module(name, std::make_shared<RmsNorm>(width, config.norm_eps));
  };
  q_norm_ = norm("q_norm", config.q_norm_width);
  k_norm_ = norm("k_norm", config.k_norm_width);
}

void Attention::describe(const AttentionConfig& config, const LayerTensors& at) {
  const std::int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  Projection::describe("qkv_proj",
                       {{"q_proj", q, TensorRole::query, TensorSplit::rows},
                        {"k_proj", kv, TensorRole::key_value, TensorSplit::rows},
                        {"v_proj", kv, TensorRole::key_value, TensorSplit::rows}},
                       config.d_model, config.qkv_bias, at);
  Projection::describe("o_proj",
                       {{"o_proj", config.d_model, TensorRole::output, TensorSplit::columns}}, q,
                       /*bias=*/false, at);
  if (config.q_norm_width == 0) return;
  RmsNorm::describe(config.q_norm_width, at.below("q_norm"), GradientShare::of_heads);
  RmsNorm::describe(config.k_norm_width, at.below("k_norm"), GradientShare::of_heads);
}

void Attention::initialize(double std, double output_std, const InitialDraws& draws) {
  qkv_proj_->initialize(std, draws.of("qkv_proj"));
  o_proj_->initialize(output_std, draws.of("o_proj"));
}

at::Tensor Attention::projected(const at::Tensor& x, std::int64_t length) {
  at::Tensor qkv = qkv_proj_->forward(rows_.enter(x));
  qkv = qkv.view({-1, length, qkv.size(-1)});
  if (q_norm_) {
    const std::int64_t q = config_.heads * config_.head_dim,
                       kv = config_.kv_heads * config_.head_dim;
    const auto parts = qkv.split_with_sizes({q, kv, kv}, -1);
    const auto normed = [](RmsNorm& norm, const at::Tensor& x, std::int64_t width) {
      if (x.size(-1) == width) return norm.forward(x);
      return norm.forward(x.reshape({-1, width})).view(x.sizes());  // a norm for each head
    };
    qkv = at::cat({normed(*q_norm_, parts[0], config_.q_norm_width),
                   normed(*k_norm_, parts[1], config_.k_norm_width), parts[2]},
                  -1);
  }
  return config_.clip_qkv > 0 ? qkv.clamp(-config_.clip_qkv, config_.clip_qkv) : qkv;
}

at::Tensor Attention::forward(const at::Tensor& x, const at::Tensor& rotation,
                              const std::optional<at::Tensor>& start) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  const at::Tensor heads =
      ops::causal_attention(projected(x, rotation.size(0)), config_.heads, config_.kv_heads, scale,
                            rotation, config_.rope_adjacent, start);
  return rows_.leave(o_proj_->forward(heads));
}

at::Tensor Attention::extend(const at::Tensor& x, const AttentionCache& cache,
                             std::span<const CachedRows> where) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  const at::Tensor qkv = projected(x, x.size(-2));
  const at::Tensor rows = qkv.view({-1, qkv.size(-1)});
  std::vector<at::Tensor> heads;
  std::int64_t first = 0;
  for (const CachedRows& group : where) {
    const at::Tensor own = rows.narrow(0, first, group.positions());
    heads.push_back(ops::cached_attention(own.view({-1, group.count, own.size(-1)}), cache.keys,
                                          cache.values, group.rows, group.lengths, scale,
                                          group.rotation, config_.rope_adjacent));
    heads.back() = heads.back().view({group.positions(), -1});
    first += group.positions();
  }
  const at::Tensor all = heads.size() == 1 ? heads[0] : at::cat(heads);
  auto shape = qkv.sizes().vec();
  shape.back() = all.size(-1);
  return rows_.leave(o_proj_->forward(all.view(shape)));
}

}  // namespace penstock
