// The gated unit: checks, implementations, gradient, dispatcher registration.
#include "penstock/ops/swiglu.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {
namespace {

using Forward = at::Tensor(const at::Tensor&);
using Backward = at::Tensor(const at::Tensor&, const at::Tensor&);

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "swiglu", {{"cpu", [](const at::Tensor& x) { return cpu::declines({x}); }, cpu::swiglu},
                 {"reference", nullptr, reference::swiglu}});
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list("swiglu.backward",
                                              {{"cpu",
                                                [](const at::Tensor& grad, const at::Tensor& x) {
                                                  return cpu::declines({grad, x});
                                                },
                                                cpu::swiglu_backward},
                                               {"reference", nullptr, reference::swiglu_backward}});
  return list;
}

at::Tensor forward_kernel(const at::Tensor& x) {
  PENSTOCK_CHECK(x.dim() >= 1 && x.size(-1) % 2 == 0, "[swiglu] x must be [..., 2f], not ",
                 x.sizes());
  check_same_kind({x}, "swiglu");
  return forward_list().run(x);
}

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const at::AutoDispatchBelowADInplaceOrView below;
    return forward_kernel(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {backward_list().run(grads[0], context->get_saved_variables()[0])};
  }
};

at::Tensor autograd_kernel(const at::Tensor& x) {
  if (needs_gradient(x)) return recorded<Swiglu>("swiglu", x);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(x);
}

}  // namespace

at::Tensor swiglu(const at::Tensor& x) {
  static const auto handle = dispatcher_handle<at::Tensor(const at::Tensor&)>("swiglu");
  return handle.call(x);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("swiglu", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("swiglu", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("swiglu", penstock::ops::autograd_kernel); }
