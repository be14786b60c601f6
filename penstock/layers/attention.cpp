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
  qkv_proj_ = projection("qkv_proj", config.d_model, query_width + 2 * kv_width, config.qkv_bias,
                         config.init_std);
  o_proj_ = projection("o_proj", query_width, config.d_model, false, config.output_std);
}

at::Tensor Attention::forward(const at::Tensor& x, const at::Tensor& rotation,
                              const std::optional<at::Tensor>& start) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  return o_proj_->forward(ops::causal_attention(qkv_proj_->forward(x), config_.heads,
                                                config_.kv_heads, scale, rotation,
                                                config_.rope_adjacent, start));
}

}  // namespace penstock
