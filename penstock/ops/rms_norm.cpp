// RMSNorm: checks and gradient.
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/reference/decoder.h"

namespace penstock::ops {
namespace {

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& gain, double eps) {
    auto [y, r] = reference::rms_norm(x, gain, eps);
    ctx->save_for_backward({x, gain, r});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    auto [dx, dgain] = reference::rms_norm_backward(grads[0], saved[0], saved[1], saved[2]);
    return {dx, dgain, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  PENSTOCK_CHECK(x.dim() >= 1 && gain.dim() == 1 && x.size(-1) == gain.size(0),
                 "[rms_norm] gain ", gain.sizes(), " must have the width of x ", x.sizes());
  PENSTOCK_CHECK(x.is_floating_point() && x.scalar_type() == gain.scalar_type(),
                 "[rms_norm] x and gain must be of one floating type, not ", x.scalar_type(), " and ",
                 gain.scalar_type());
  return RmsNorm::apply(x, gain, eps);
}

}  // namespace penstock::ops
