// Kernels of attention with relative positions. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "penstock/ops/machine/precision.h"

namespace penstock::ops {

/// The arguments of ops::relative_attention, checked.
struct RelativeProblem {
  at::Tensor q;     ///< [B, T, H·hd]
  at::Tensor kv;    ///< [B, K, 2·H·hd]
  at::Tensor r;     ///< [K, H·hd]
  at::Tensor u, v;  ///< [H, hd]
  double scale = 1;
  /// bf16: q + u, q + v, keys, values and r are rounded. So are the attention weights and the
  /// gradients of the scores. Softmax and sums are f32.
  ProductPrecision precision = ProductPrecision::fp32;

  std::int64_t batch() const { return q.size(0); }
  std::int64_t length() const { return q.size(1); }  ///< T
  std::int64_t keys() const { return kv.size(1); }   ///< K
  std::int64_t memory() const { return keys() - length(); }
  std::int64_t heads() const { return u.size(0); }
  std::int64_t head_dim() const { return u.size(1); }
};
std::string describe(const RelativeProblem& problem);
double bytes_of(const RelativeProblem& problem);

/// y [B, T, H·hd] and the logsumexp of each row's scores [B, H, T].
using RelativeResult = std::tuple<at::Tensor, at::Tensor>;
/// Gradients of q, kv, r, u and v.
using RelativeGradient = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

namespace reference {
RelativeResult relative_attention(const RelativeProblem& problem);
RelativeGradient relative_attention_backward(const at::Tensor& grad, const RelativeProblem& problem,
                                             const at::Tensor& y, const at::Tensor& logsumexp);
}  // namespace reference

namespace cpu {
/// Multiplies blocks of rows by strips of all keys (relative_strips.h). Memory per thread is linear
/// in K. The bits do not depend on the number of threads.
RelativeResult relative_attention(const RelativeProblem& problem);
/// Recomputes the attention weights strip by strip from the logsumexp.
RelativeGradient relative_attention_backward(const at::Tensor& grad, const RelativeProblem& problem,
                                             const at::Tensor& y, const at::Tensor& logsumexp);
}  // namespace cpu

namespace bf16 {
std::string declines_relative_attention(const RelativeProblem& problem);
RelativeResult relative_attention(const RelativeProblem& problem);
RelativeGradient relative_attention_backward(const at::Tensor& grad, const RelativeProblem& problem,
                                             const at::Tensor& y, const at::Tensor& logsumexp);
}  // namespace bf16

}  // namespace penstock::ops
