// A linear head with its cross-entropy: checks, implementations, gradient, dispatcher registration.
// The forward pass computes the gradients of the mean from each chunk's logits, so that nothing is
// computed twice. The backward pass multiplies them by the incoming scalar.
#include "penstock/ops/linear_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {

std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t vocabulary, std::int64_t element_size,
                            std::int64_t logits_bytes) {
  const std::int64_t row = std::max<std::int64_t>(1, vocabulary * element_size);
  std::int64_t most = std::max<std::int64_t>(1, logits_bytes / row);
  if (rows <= most) return std::max<std::int64_t>(1, rows);
  // Products are faster on whole register blocks, of 32 rows.
  if (most > 32) most -= most % 32;
  const std::int64_t chunks = (rows + most - 1) / most;
  const std::int64_t even = (rows + chunks - 1) / chunks;
  return std::min(most, (even + 31) / 32 * 32);
}

std::string describe(const HeadOptions& options) {
  return concat("d", options.dhidden ? "x" : "", options.dw ? "w" : "", ", ", options.chunk,
                " rows at once");
}

double bytes_of(const HeadLoss& out) {
  return bytes_of(out.losses) + bytes_of(out.dhidden) + bytes_of(out.dw);
}

namespace {

using Kernel = HeadLoss(const at::Tensor&, const at::Tensor&, const at::Tensor&, HeadOptions);

/// 2·R·d·V FLOPs for the logits and for each gradient.
Cost head_cost(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor&,
               HeadOptions options) {
  const double product = 2.0 * static_cast<double>(hidden.size(0)) * static_cast<double>(w.numel());
  return {.flops = product * (1 + options.dhidden + options.dw)};
}

const Implementations<Kernel>& list() {
  static const Implementations<Kernel> entries(
      "linear_cross_entropy",
      {{"bf16", bf16::declines_linear_cross_entropy, bf16::linear_cross_entropy},
       {"onednn", onednn::declines_linear_cross_entropy, onednn::linear_cross_entropy},
       {"reference", nullptr, reference::linear_cross_entropy}},
      head_cost);
  return entries;
}

HeadLoss checked(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets,
                 std::int64_t logits_bytes, bool dhidden, bool dw) {
  PENSTOCK_CHECK(hidden.dim() == 2 && w.dim() == 2 && hidden.size(1) == w.size(1),
                 "[linear_cross_entropy] hidden ", hidden.sizes(), " does not fit w ", w.sizes(),
                 ": hidden is [R, d], w [V, d]");
  check_same_kind({hidden, w}, "linear_cross_entropy");
  PENSTOCK_CHECK(targets.sizes() == hidden.sizes().slice(0, 1) &&
                     targets.scalar_type() == at::kLong && targets.device() == hidden.device(),
                 "[linear_cross_entropy] targets ", targets.sizes(),
                 " must be i64 [R], on hidden's device, for hidden ", hidden.sizes());
  check_index_range(targets, w.size(0), "linear_cross_entropy", "target");
  const std::int64_t chunk =
      rows_per_chunk(hidden.size(0), w.size(0), hidden.element_size(), logits_bytes);
  return list().run(product_operand(hidden), w, targets, {dhidden, dw, chunk});
}

/// The mean, added up in f64 in row order; 0 for no rows.
at::Tensor row_mean(const at::Tensor& losses) {
  const double rows = static_cast<double>(std::max<std::int64_t>(1, losses.size(0)));
  const at::Tensor wide = losses.to(at::kDouble);
  if (!wide.is_cpu()) return wide.sum().div(rows).to(losses.scalar_type());
  double sum = 0;
  for (std::int64_t i = 0; i < wide.size(0); ++i) sum += wide.data_ptr<double>()[i];
  return at::full({}, sum / rows, losses.options());
}

at::Tensor losses_kernel(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets,
                         std::int64_t logits_bytes) {
  return checked(hidden, w, targets, logits_bytes, false, false).losses;
}

at::Tensor mean_kernel(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets,
                       std::int64_t logits_bytes) {
  return row_mean(losses_kernel(hidden, w, targets, logits_bytes));
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& w, const at::Tensor& targets,
                            std::int64_t logits_bytes) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const HeadLoss out =
        checked(hidden, w, targets, logits_bytes, hidden.requires_grad(), w.requires_grad());
    context->save_for_backward({out.dhidden, out.dw});
    return row_mean(out.losses);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    // Usually the incoming gradient is 1, and the gradients are returned without a copy.
    const bool as_is = grads[0].is_cpu() && grads[0].item<double>() == 1;
    const auto scaled = [&](const at::Tensor& unit) {
      return as_is || !unit.defined() ? unit : unit * grads[0];
    };
    return {scaled(saved[0]), scaled(saved[1]), at::Tensor(), at::Tensor()};
  }
};

at::Tensor autograd_kernel(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets,
                           std::int64_t logits_bytes) {
  if (needs_gradient(hidden, w))
    return recorded<LinearCrossEntropy>("linear_cross_entropy", hidden, w, targets, logits_bytes);
  const at::AutoDispatchBelowADInplaceOrView below;
  return mean_kernel(hidden, w, targets, logits_bytes);
}

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t);

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                                const at::Tensor& targets, std::int64_t logits_bytes) {
  static const auto handle = dispatcher_handle<Signature>("linear_cross_entropy");
  return handle.call(hidden, w, targets, logits_bytes);
}

at::Tensor linear_cross_entropy_rows(const at::Tensor& hidden, const at::Tensor& w,
                                     const at::Tensor& targets, std::int64_t logits_bytes) {
  static const auto handle = dispatcher_handle<Signature>("linear_cross_entropy_rows");
  const at::AutoDispatchBelowADInplaceOrView below;  // no gradient
  return handle.call(hidden, w, targets, logits_bytes);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) {
  m.impl("linear_cross_entropy", penstock::ops::mean_kernel);
  m.impl("linear_cross_entropy_rows", penstock::ops::losses_kernel);
}
TORCH_LIBRARY_IMPL(penstock, CUDA, m) {
  m.impl("linear_cross_entropy", penstock::ops::mean_kernel);
  m.impl("linear_cross_entropy_rows", penstock::ops::losses_kernel);
}
TORCH_LIBRARY_IMPL(penstock, Autograd, m) {
  m.impl("linear_cross_entropy", penstock::ops::autograd_kernel);
}
