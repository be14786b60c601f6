// Kernels of causal attention. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <tuple>

#include "penstock/ops/machine/precision.h"

namespace penstock::ops {

/// The layout of a packed projection [B, T, (H+2G)·hd]: H query heads, then G key heads, then G
/// value heads.  `rotation` [T, hd] and `start` [B, T] may be undefined.
struct AttentionOptions {
  std::int64_t heads = 0, kv_heads = 0;
  double scale = 1;
  at::Tensor rotation;
  bool rope_adjacent = false;
  at::Tensor start;
  /// bf16: the operands of each product are rounded, queries and keys after the rotation. So are
  /// the attention weights and the gradients of the scores. Softmax and sums are f32.
  ProductPrecision precision = ProductPrecision::fp32;

  std::int64_t head_dim(const at::Tensor& qkv) const {
    return qkv.size(2) / (heads + 2 * kv_heads);
  }
};
std::string describe(const AttentionOptions& options);
double bytes_of(const AttentionOptions& options);

/// y [B, T, H·hd] and the logsumexp of each row's scores [B, H, T].
using AttentionResult = std::tuple<at::Tensor, at::Tensor>;

namespace reference {
AttentionResult causal_attention(const at::Tensor& qkv, const AttentionOptions& options);
/// The gradient of qkv.
at::Tensor causal_attention_backward(const at::Tensor& grad, const at::Tensor& qkv,
                                     const at::Tensor& y, const at::Tensor& logsumexp,
                                     const AttentionOptions& options);
}  // namespace reference

namespace cpu {
/// Multiplies blocks of rows by tiles of keys. Memory per thread is linear in T. Threads divide the
/// (sequence, key/value head) pairs, so the bits do not depend on the number of threads.
AttentionResult causal_attention(const at::Tensor& qkv, const AttentionOptions& options);
/// Recomputes the attention weights tile by tile from the logsumexp.
at::Tensor causal_attention_backward(const at::Tensor& grad, const at::Tensor& qkv,
                                     const at::Tensor& y, const at::Tensor& logsumexp,
                                     const AttentionOptions& options);
}  // namespace cpu

namespace bf16 {
std::string declines_causal_attention(const at::Tensor& qkv, const AttentionOptions& options);
AttentionResult causal_attention(const at::Tensor& qkv, const AttentionOptions& options);
at::Tensor causal_attention_backward(const at::Tensor& grad, const at::Tensor& qkv,
                                     const at::Tensor& y, const at::Tensor& logsumexp,
                                     const AttentionOptions& options);
}  // namespace bf16

}  // namespace penstock::ops
