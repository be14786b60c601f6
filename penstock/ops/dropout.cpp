// Dropout: checks, implementations, gradient, dispatcher registration.
#include "penstock/ops/dropout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {
namespace {

using Signature = at::Tensor(const at::Tensor&, double, std::int64_t);

std::string declines(const at::Tensor& x, double, std::int64_t) { return cpu::declines({x}); }

const Implementations<Signature>& forward_list() {
  static const Implementations<Signature> list(
      "dropout", {{"cpu", declines, cpu::dropout}, {"reference", nullptr, reference::dropout}});
  return list;
}

/// The gradient is multiplied by the same mask.
const Implementations<Signature>& backward_list() {
  static const Implementations<Signature> list(
      "dropout.backward",
      {{"cpu", declines, cpu::dropout}, {"reference", nullptr, reference::dropout}});
  return list;
}

at::Tensor forward_kernel(const at::Tensor& x, double p, std::int64_t seed) {
  PENSTOCK_CHECK(p >= 0 && p < 1, "[dropout] p = ", p, " must be at least 0 and below 1");
  PENSTOCK_CHECK(x.dim() >= 1, "[dropout] x must be [..., n], not a scalar");
  check_same_kind({x}, "dropout");
  return forward_list().run(x, p, seed);
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            double p, std::int64_t seed) {
    context->saved_data["p"] = p;
    context->saved_data["seed"] = seed;
    const at::AutoDispatchBelowADInplaceOrView below;
    return forward_kernel(x, p, seed);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor none;
    return {backward_list().run(grads[0], context->saved_data["p"].toDouble(),
                                context->saved_data["seed"].toInt()),
            none, none};
  }
};

at::Tensor autograd_kernel(const at::Tensor& x, double p, std::int64_t seed) {
  if (needs_gradient(x)) return recorded<DropoutFunction>("dropout", x, p, seed);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(x, p, seed);
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double p, std::int64_t seed) {
  static const auto handle = dispatcher_handle<Signature>("dropout");
  return handle.call(x, p, seed);
}

at::Tensor dropout_keys(std::int64_t seed, std::int64_t first, std::int64_t rows) {
  const Dropout dropout{.seed = seed};
  at::Tensor out = at::empty({rows}, at::kLong);
  for (std::int64_t row = 0; row < rows; ++row)
    out.data_ptr<std::int64_t>()[row] = dropout.row_key(first + row);
  return out;
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("dropout", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("dropout", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("dropout", penstock::ops::autograd_kernel); }
