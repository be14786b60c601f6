// Rotary position embedding: checks and gradient, which is the rotation back.
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/reference/decoder.h"

namespace penstock::ops {
namespace {

class Rope : public torch::autograd::Function<Rope> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& positions, double base, bool adjacent) {
    ctx->save_for_backward({positions});
    ctx->saved_data["base"] = base;
    ctx->saved_data["adjacent"] = adjacent;
    return reference::rope(x, positions, base, adjacent, /*inverse=*/false);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {reference::rope(grads[0], saved[0], ctx->saved_data["base"].toDouble(),
                            ctx->saved_data["adjacent"].toBool(), /*inverse=*/true),
            {}, {}, {}};
  }
};

}  // namespace

at::Tensor rope(const at::Tensor& x, const at::Tensor& positions, double base, bool adjacent) {
  PENSTOCK_CHECK(x.dim() == 4 && x.size(3) % 2 == 0 && x.is_floating_point(),
                 "[rope] x must be [B, T, H, hd], floating, with hd even, not ", x.sizes());
  PENSTOCK_CHECK(positions.scalar_type() == at::kLong &&
                     (positions.sizes() == x.sizes().slice(1, 1) ||
                      positions.sizes() == x.sizes().slice(0, 2)),
                 "[rope] positions ", positions.sizes(), " must be i64 [T] or [B, T] for x ", x.sizes());
  PENSTOCK_CHECK(base > 0, "[rope] base must be positive, not ", base);
  return Rope::apply(x, positions, base, adjacent);
}

}  // namespace penstock::ops
