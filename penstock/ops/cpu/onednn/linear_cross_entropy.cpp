// A linear head with its cross-entropy on CPU in fp32. oneDNN's products write to one buffer of
// logits, which every chunk of rows reuses.
#include "penstock/ops/linear_cross_entropy.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/check.h"
#include "penstock/ops/cpu/onednn/matmul.h"

namespace penstock::ops::onednn {

std::string declines_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                                          const at::Tensor& targets, HeadOptions) {
  return cpu::declines({hidden, w, targets});
}

HeadLoss linear_cross_entropy(const at::Tensor& hidden_in, const at::Tensor& w_in,
                              const at::Tensor& targets_in, HeadOptions options) {
  const at::Tensor hidden = hidden_in.contiguous(), w = w_in.contiguous();
  const at::Tensor targets = targets_in.contiguous();
  const std::int64_t rows = hidden.size(0), vocabulary = w.size(0);
  const bool gradient = options.dhidden || options.dw;
  const float scale = gradient && rows > 0 ? 1.0f / static_cast<float>(rows) : 0.0f;
  HeadLoss out{.losses = at::empty({rows}, hidden.options())};
  if (options.dhidden) out.dhidden = at::empty(hidden.sizes(), hidden.options());
  if (options.dw) out.dw = at::empty(w.sizes(), w.options());
  if (options.dw && rows == 0) out.dw.zero_();

  const auto matrix = [](const at::Tensor& tensor, std::int64_t first, std::int64_t count) {
    const std::int64_t columns = tensor.size(1), stride = std::max<std::int64_t>(1, columns);
    return Matrix{tensor.data_ptr<float>() + first * columns, count, columns, stride, 1};
  };
  const Matrix head = matrix(w, 0, vocabulary);
  const at::Tensor buffer =
      at::empty({std::min(rows, options.chunk), vocabulary}, hidden.options());
  for (std::int64_t from = 0; from < rows; from += options.chunk) {
    const std::int64_t count = std::min(rows - from, options.chunk);
    const Matrix x = matrix(hidden, from, count), logits = matrix(buffer, 0, count);
    matmul(x, head.transposed(), nullptr, logits);  // [count, V]
    cpu::softmax_loss(logits.data, count, vocabulary, targets.data_ptr<std::int64_t>() + from,
                      scale, out.losses.data_ptr<float>() + from);
    if (options.dhidden) matmul(logits, head, nullptr, matrix(out.dhidden, from, count));
    if (options.dw)
      matmul(logits.transposed(), x, nullptr, matrix(out.dw, 0, vocabulary), from > 0);
  }
  return out;
}

}  // namespace penstock::ops::onednn
