// RMSNorm: checks, implementations, gradient, dispatcher registration.
#include "penstock/ops/rms_norm.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {
namespace {

using Forward = RmsNormResult(const at::Tensor&, const at::Tensor&, double);
using Backward = RmsNormGradient(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 const at::Tensor&, const at::Tensor&);

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "rms_norm", {{"cpu",
                    [](const at::Tensor& x, const at::Tensor& gain, double) {
                      return cpu::declines({x, gain});
                    },
                    cpu::rms_norm},
                   {"reference", nullptr, reference::rms_norm}});
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "rms_norm.backward", {{"cpu",
                             [](const at::Tensor& grad, const at::Tensor&, const at::Tensor& x,
                                const at::Tensor& gain, const at::Tensor& r) {
                               return cpu::declines({grad, x, gain, r});
                             },
                             cpu::rms_norm_backward},
                            {"reference", nullptr, reference::rms_norm_backward}});
  return list;
}

void check(const at::Tensor& x, const at::Tensor& gain) {
  PENSTOCK_CHECK(x.dim() >= 1 && gain.dim() == 1 && x.size(-1) == gain.size(0), "[rms_norm] gain ",
                 gain.sizes(), " must have the width of x ", x.sizes());
  check_same_kind({x, gain}, "rms_norm");
}

at::Tensor forward_kernel(const at::Tensor& x, const at::Tensor& gain, double eps) {
  check(x, gain);
  return std::get<0>(forward_list().run(x, gain, eps));
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& gain, double eps) {
    check(x, gain);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, r] = forward_list().run(x, gain, eps);
    context->save_for_backward({x, gain, r});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto [dx, dgain] =
        backward_list().run(grads[0], at::Tensor(), saved[0], saved[1], saved[2]);
    return {dx, dgain, {}};
  }
};

at::Tensor autograd_kernel(const at::Tensor& x, const at::Tensor& gain, double eps) {
  if (needs_gradient(x, gain)) return recorded<RmsNorm>("rms_norm", x, gain, eps);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(x, gain, eps);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  static const auto handle =
      dispatcher_handle<at::Tensor(const at::Tensor&, const at::Tensor&, double)>("rms_norm");
  return handle.call(x, gain, eps);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("rms_norm", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("rms_norm", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("rms_norm", penstock::ops::autograd_kernel); }
