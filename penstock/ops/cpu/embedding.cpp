// Row lookup in f32 and its gradient.
#include "penstock/ops/embedding.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

/// Clears columns [begin, end) of every row, then adds the gradients in the order of the tokens.
PENSTOCK_PER_CPU void add_columns(const float* grad, const std::int64_t* ids, float* out,
                                  std::int64_t tokens, std::int64_t vocabulary, std::int64_t d,
                                  std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = 0; row < vocabulary; ++row)
    std::fill(out + row * d + begin, out + row * d + end, 0.0f);
  for (std::int64_t n = 0; n < tokens; ++n) {
    const float* from = grad + n * d;
    float* to = out + ids[n] * d;
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
  }
}

}  // namespace

at::Tensor embedding(const at::Tensor& weight_in, const at::Tensor& ids_in) {
  const auto weight = weight_in.contiguous(), ids = ids_in.contiguous();
  auto shape = ids.sizes().vec();
  shape.push_back(weight.size(1));
  auto y = at::empty(shape, weight.options());
  const std::int64_t d = weight.size(1);
  const float* rows = weight.data_ptr<float>();
  const std::int64_t* id = ids.data_ptr<std::int64_t>();
  float* to = y.data_ptr<float>();
  parallel_ranges(ids.numel(), 1 + 16384 / (d + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) std::copy_n(rows + id[n] * d, d, to + n * d);
  });
  return y;
}

at::Tensor embedding_backward(const at::Tensor& grad_in, const at::Tensor& ids_in,
                              std::int64_t vocabulary) {
  const auto grad = grad_in.contiguous(), ids = ids_in.contiguous();
  const std::int64_t d = grad.size(-1);
  auto dweight = at::empty({vocabulary, d}, grad.options());
  const float* from = grad.data_ptr<float>();
  const std::int64_t* id = ids.data_ptr<std::int64_t>();
  const std::int64_t tokens = ids.numel();
  float* to = dweight.data_ptr<float>();
  // A range has whole groups of 16 columns, a cache line: no two threads write to the same line.
  parallel_ranges((d + 15) / 16, 1, [=](std::int64_t begin, std::int64_t end) {
    add_columns(from, id, to, tokens, vocabulary, d, begin * 16, std::min(end * 16, d));
  });
  return dweight;
}

}  // namespace penstock::ops::cpu
