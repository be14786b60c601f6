// References of the decoder's operators other than the matrix products: plain ATen, any device, f32
// and f64, forward and backward written out. They are the tests' oracle and take every problem that
// no fast implementation supports. Inputs are already checked by the public functions of ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "penstock/ops/ops.h"

namespace penstock::ops::reference {

/// @return y [..., d] and the reciprocal root mean square of each row [R].
std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps);
/// @return gradients of x and gain.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad, const at::Tensor& x,
                                                     const at::Tensor& gain,
                                                     const at::Tensor& reciprocal_rms);

/// Rotates the pairs by +angle, or by −angle when `inverse`, which is also the gradient.
at::Tensor rope(const at::Tensor& x, const at::Tensor& positions, double base, bool adjacent,
                bool inverse);

/// @return y [B, T, H, hd] and the logsumexp of each row's scores [B, H, T].
std::tuple<at::Tensor, at::Tensor> causal_attention(const at::Tensor& q, const at::Tensor& k,
                                                    const at::Tensor& v, double scale,
                                                    const std::optional<at::Tensor>& start);
/// @return gradients of q, k and v.
std::tuple<at::Tensor, at::Tensor, at::Tensor> causal_attention_backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& y, const at::Tensor& logsumexp, double scale,
    const std::optional<at::Tensor>& start);

at::Tensor swiglu(const at::Tensor& x);
at::Tensor swiglu_backward(const at::Tensor& grad, const at::Tensor& x);

/// @return loss [R] and the logsumexp of each row [R].
std::tuple<at::Tensor, at::Tensor> cross_entropy(const at::Tensor& logits, const at::Tensor& targets);
at::Tensor cross_entropy_backward(const at::Tensor& grad, const at::Tensor& logits,
                                  const at::Tensor& targets, const at::Tensor& logsumexp);

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids);
/// @return [vocabulary, d].
at::Tensor embedding_backward(const at::Tensor& grad, const at::Tensor& ids,
                              std::int64_t vocabulary);

void adamw_step(const at::Tensor& weight, const at::Tensor& grad, const at::Tensor& m,
                const at::Tensor& v, double decay, const AdamWOptions& options);

/// Sum of squares in f64.
double sum_of_squares(const at::Tensor& x);

}  // namespace penstock::ops::reference
