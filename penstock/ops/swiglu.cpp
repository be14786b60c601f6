// The gated unit: checks and gradient.
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/reference/decoder.h"

namespace penstock::ops {
namespace {

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    return reference::swiglu(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    return {reference::swiglu_backward(grads[0], ctx->get_saved_variables()[0])};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& x) {
  PENSTOCK_CHECK(x.dim() >= 1 && x.size(-1) % 2 == 0 && x.is_floating_point(),
                 "[swiglu] x must be floating [..., 2f], not ", x.sizes());
  return Swiglu::apply(x);
}

}  // namespace penstock::ops
