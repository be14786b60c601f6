// Residual addition and RMSNorm as one operator: checks, implementations, gradient, dispatcher
// registration. rms_norm.h has the kernels.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/rms_norm.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Signature = Pair(const at::Tensor&, const at::Tensor&, const at::Tensor&, double);
using Forward = AddRmsNormResult(const at::Tensor&, const at::Tensor&, const at::Tensor&, double);
using Backward = RmsNormGradient(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 const at::Tensor&, const at::Tensor&);

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "add_rms_norm",
      {{"cpu",
        [](const at::Tensor& x, const at::Tensor& delta, const at::Tensor& gain, double) {
          return cpu::declines({x, delta, gain});
        },
        cpu::add_rms_norm},
       {"reference", nullptr, reference::add_rms_norm}});
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "add_rms_norm.backward",
      {{"cpu",
        [](const at::Tensor& grad, const at::Tensor& residual, const at::Tensor& h,
           const at::Tensor& gain, const at::Tensor& r) {
          return cpu::declines({grad, residual, h, gain, r});
        },
        cpu::rms_norm_backward},
       {"reference", nullptr, reference::rms_norm_backward}});
  return list;
}

AddRmsNormResult checked_forward(const at::Tensor& x, const at::Tensor& delta,
                                 const at::Tensor& gain, double eps) {
  PENSTOCK_CHECK(x.sizes() == delta.sizes(), "[add_rms_norm] delta ", delta.sizes(),
                 " must have the shape of x ", x.sizes());
  PENSTOCK_CHECK(x.dim() >= 1 && gain.dim() == 1 && x.size(-1) == gain.size(0),
                 "[add_rms_norm] gain ", gain.sizes(), " must have the width of x ", x.sizes());
  check_same_kind({x, delta, gain}, "add_rms_norm");
  return forward_list().run(x, delta, gain, eps);
}

Pair forward_kernel(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& gain,
                    double eps) {
  const auto [h, n, r] = checked_forward(x, delta, gain, eps);
  return {h, n};
}

class AddRmsNorm : public torch::autograd::Function<AddRmsNorm> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& x, const at::Tensor& delta,
                                                const at::Tensor& gain, double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [h, n, r] = checked_forward(x, delta, gain, eps);
    context->save_for_backward({h, gain, r});
    context->set_materialize_grads(false);
    return {h, n};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    if (!grads[1].defined()) return {grads[0], grads[0], {}, {}};  // the loss depends on h alone
    const auto saved = context->get_saved_variables();
    const auto [dh, dgain] = backward_list().run(grads[1], grads[0], saved[0], saved[1], saved[2]);
    return {dh, dh, dgain, {}};
  }
};

Pair autograd_kernel(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& gain,
                     double eps) {
  if (needs_gradient(x, delta, gain)) {
    const auto out = recorded<AddRmsNorm>("add_rms_norm", x, delta, gain, eps);
    return {out[0], out[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(x, delta, gain, eps);
}

}  // namespace

Pair add_rms_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& gain,
                  double eps) {
  static const auto handle = dispatcher_handle<Signature>("add_rms_norm");
  return handle.call(x, delta, gain, eps);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("add_rms_norm", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("add_rms_norm", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) {
  m.impl("add_rms_norm", penstock::ops::autograd_kernel);
}
