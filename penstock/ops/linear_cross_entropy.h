// Kernels of a linear head with its cross-entropy, in chunks of rows. Not public: callers use
// ops.h. If hidden is bf16 and w is f32, both operands of each product are rounded; results are
// f32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace penstock::ops {

/// The number of rows in a chunk: at most as many as `logits_bytes` hold, at least one, about the
/// same in all chunks.  rows, vocabulary, element_size ≥ 0; the result is in [1, max(1, rows)].
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t vocabulary, std::int64_t element_size,
                            std::int64_t logits_bytes);

/// The gradients to compute besides the losses, and the rows of a chunk.
struct HeadOptions {
  bool dhidden, dw;
  std::int64_t chunk;
};
std::string describe(const HeadOptions& options);

/// Losses [R], and the gradients of their mean: dhidden [R, d], dw [V, d], undefined unless asked
/// for.
struct HeadLoss {
  at::Tensor losses, dhidden, dw;
};
double bytes_of(const HeadLoss& out);

namespace reference {
/// hidden [R, d], w [V, d], targets [R] i64.
HeadLoss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                              const at::Tensor& targets, HeadOptions options);
}  // namespace reference

namespace cpu {
/// losses[r] = logsumexp(x_r) − x_r[target_r] of f32 logits x [rows, width]; with scale ≠ 0 also x
/// ← (softmax(x) − onehot)·scale in place.  The bits do not depend on the number of threads.
void softmax_loss(float* x, std::int64_t rows, std::int64_t width, const std::int64_t* target,
                  float scale, float* losses);
}  // namespace cpu

namespace bf16 {
std::string declines_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                                          const at::Tensor& targets, HeadOptions options);
HeadLoss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                              const at::Tensor& targets, HeadOptions options);
}  // namespace bf16

namespace onednn {
std::string declines_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                                          const at::Tensor& targets, HeadOptions options);
HeadLoss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                              const at::Tensor& targets, HeadOptions options);
}  // namespace onednn

}  // namespace penstock::ops
