#include "penstock/layers/attention.h"

#include <torch/torch.h>

#include <cmath>

#include "penstock/ops/ops.h"

namespace penstock {

Attention::Attention(const AttentionConfig& config) : config_(config) {
  const std::int64_t query_width = config.heads * config.head_dim;
  const std::int64_t kv_width = config.kv_heads * config.head_dim;
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out, bool bias,
                              double std) {
    return register_module(name, std::make_shared<Projection>(in, out, bias, std));
  };
  q_proj_ = projection("q_proj", config.d_model, query_width, config.qkv_bias, config.init_std);
  k_proj_ = projection("k_proj", config.d_model, kv_width, config.qkv_bias, config.init_std);
  v_proj_ = projection("v_proj", config.d_model, kv_width, config.qkv_bias, config.init_std);
  o_proj_ = projection("o_proj", query_width, config.d_model, false, config.output_std);
}

at::Tensor Attention::forward(const at::Tensor& x, const at::Tensor& positions,
                              const std::optional<at::Tensor>& start) {
  const std::int64_t batch = x.size(0), length = x.size(1), hd = config_.head_dim;
  const auto heads_of = [&](Projection& projection, std::int64_t heads) {
    return projection.forward(x).view({batch, length, heads, hd});  // [B, T, H, hd]
  };
  const auto rotated = [&](const at::Tensor& t) {
    return ops::rope(t, positions, config_.rope_base, config_.rope_adjacent);
  };
  const at::Tensor q = rotated(heads_of(*q_proj_, config_.heads));
  const at::Tensor k = rotated(heads_of(*k_proj_, config_.kv_heads));
  const at::Tensor v = heads_of(*v_proj_, config_.kv_heads);
  const at::Tensor y =
      ops::causal_attention(q, k, v, 1.0 / std::sqrt(static_cast<double>(hd)), start);
  return o_proj_->forward(y.reshape({batch, length, config_.heads * hd}));
}

}  // namespace penstock
