// Kernels of the row lookup. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock::ops {

namespace reference {
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids);
/// @return [vocabulary, d].
at::Tensor embedding_backward(const at::Tensor& grad, const at::Tensor& ids,
                              std::int64_t vocabulary);
}  // namespace reference

namespace cpu {
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids);
/// Threads divide the columns and add rows in order, so the bits do not depend on their number.
at::Tensor embedding_backward(const at::Tensor& grad, const at::Tensor& ids,
                              std::int64_t vocabulary);
}  // namespace cpu

}  // namespace penstock::ops
