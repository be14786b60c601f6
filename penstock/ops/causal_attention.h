// Kernels of causal attention. Not public: callers use ops.h. `start` is undefined where absent.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <tuple>

namespace penstock::ops {

/// y [B, T, H, hd] and the logsumexp of each row's scores [B, H, T].
using AttentionResult = std::tuple<at::Tensor, at::Tensor>;
/// Gradients of q, k and v.
using AttentionGradient = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

namespace reference {
AttentionResult causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 double scale, const at::Tensor& start);
AttentionGradient causal_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                            const at::Tensor& k, const at::Tensor& v,
                                            const at::Tensor& y, const at::Tensor& logsumexp,
                                            double scale, const at::Tensor& start);
}  // namespace reference

namespace cpu {
/// Blocks of rows against tiles of keys; memory per thread is linear in T.  Threads divide
/// (sequence, key/value head) pairs: equal for any number of threads.
AttentionResult causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 double scale, const at::Tensor& start);
/// Recomputes the weights tile by tile from the logsumexp.
AttentionGradient causal_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                            const at::Tensor& k, const at::Tensor& v,
                                            const at::Tensor& y, const at::Tensor& logsumexp,
                                            double scale, const at::Tensor& start);
}  // namespace cpu

}  // namespace penstock::ops
