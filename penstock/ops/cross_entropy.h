// Kernels of cross-entropy. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace penstock::ops {

/// Loss [R] and each row's logsumexp [R].
using CrossEntropyResult = std::tuple<at::Tensor, at::Tensor>;

namespace reference {
CrossEntropyResult cross_entropy(const at::Tensor& logits, const at::Tensor& targets);
/// (softmax − onehot) · grad.
at::Tensor cross_entropy_backward(const at::Tensor& grad, const at::Tensor& logits,
                                  const at::Tensor& targets, const at::Tensor& logsumexp);
}  // namespace reference

namespace cpu {
/// Two sweeps over each row, the second from cache; equal for any number of threads.
CrossEntropyResult cross_entropy(const at::Tensor& logits, const at::Tensor& targets);
at::Tensor cross_entropy_backward(const at::Tensor& grad, const at::Tensor& logits,
                                  const at::Tensor& targets, const at::Tensor& logsumexp);
}  // namespace cpu

}  // namespace penstock::ops
