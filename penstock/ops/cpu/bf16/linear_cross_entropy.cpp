// A linear head with its cross-entropy on CPU with products in bf16. Logits, softmax and loss are
// f32. The gradient of a chunk's logits is rounded once for both of its products.
#include "penstock/ops/linear_cross_entropy.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/cpu/bf16/blocked_product.h"
#include "penstock/ops/cpu/bf16/declines.h"
#include "penstock/ops/cpu/bf16/rounding.h"

namespace penstock::ops::bf16 {

std::string declines_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                                          const at::Tensor&, HeadOptions) {
  if (std::string reason = declines(hidden, w); !reason.empty()) return reason;
  return hidden.numel() == 0 || w.numel() == 0 ? "an empty operand" : "";
}

HeadLoss linear_cross_entropy(const at::Tensor& hidden_in, const at::Tensor& w_in,
                              const at::Tensor& targets_in, HeadOptions options) {
  const at::Tensor hidden = hidden_in.contiguous(), w = w_in.contiguous();
  const at::Tensor targets = targets_in.contiguous();
  const std::int64_t rows = hidden.size(0), width = hidden.size(1), vocabulary = w.size(0);
  const auto f32 = w.options().requires_grad(false);
  const bool gradient = options.dhidden || options.dw;
  const float scale = gradient ? 1.0f / static_cast<float>(rows) : 0.0f;
  HeadLoss out{.losses = at::empty({rows}, f32)};
  if (options.dhidden) out.dhidden = at::empty({rows, width}, f32);
  if (options.dw) out.dw = at::empty({vocabulary, width}, f32);

  const Panels transposed = transposed_panels(w);
  const Panels straight = options.dhidden ? row_panels(w) : Panels();
  const at::Tensor buffer = at::empty({std::min(rows, options.chunk), vocabulary}, f32);
  for (std::int64_t from = 0; from < rows; from += options.chunk) {
    const std::int64_t count = std::min(rows - from, options.chunk);
    const at::Tensor x = hidden.narrow(0, from, count), logits = buffer.narrow(0, 0, count);
    blocked_product({.rows = count, .columns = vocabulary, .depth = width, .c_row = vocabulary},
                    pair_rows(x), transposed, logits.data_ptr<float>());
    cpu::softmax_loss(logits.data_ptr<float>(), count, vocabulary,
                      targets.data_ptr<std::int64_t>() + from, scale,
                      out.losses.data_ptr<float>() + from);
    if (!gradient) continue;
    const at::Tensor d_logits = rounded(logits);
    if (options.dhidden)
      blocked_product({.rows = count, .columns = width, .depth = vocabulary, .c_row = width},
                      pair_rows(d_logits), straight, out.dhidden.data_ptr<float>() + from * width);
    if (options.dw)
      blocked_product({.rows = vocabulary,
                       .columns = width,
                       .depth = count,
                       .c_row = width,
                       .accumulate = from > 0},
                      row_panels(d_logits), row_panels(x), out.dw.data_ptr<float>());
  }
  return out;
}

}  // namespace penstock::ops::bf16
