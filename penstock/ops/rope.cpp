// Rotary position embedding: checks, implementations, gradient (the rotation back), registration.
#include "penstock/ops/rope.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"

namespace penstock::ops {
namespace {

using Rotation = at::Tensor(const at::Tensor&, const at::Tensor&, double, bool, bool);

Implementations<Rotation> make_list(const char* name) {
  return {name,
          {{"cpu",
            [](const at::Tensor& x, const at::Tensor& positions, double, bool, bool) {
              return cpu::declines({x, positions});
            },
            cpu::rope},
           {"reference", nullptr, reference::rope}}};
}

const Implementations<Rotation>& rotation_list(bool inverse) {
  static const auto forward = make_list("rope"), backward = make_list("rope.backward");
  return inverse ? backward : forward;
}

at::Tensor forward_kernel(const at::Tensor& x, const at::Tensor& positions, double base,
                          bool adjacent) {
  PENSTOCK_CHECK(x.dim() == 4 && x.size(3) % 2 == 0,
                 "[rope] x must be [B, T, H, hd] with hd even, not ", x.sizes());
  check_same_kind({x}, "rope");
  PENSTOCK_CHECK(positions.scalar_type() == at::kLong && positions.device() == x.device() &&
                     (positions.sizes() == x.sizes().slice(1, 1) ||
                      positions.sizes() == x.sizes().slice(0, 2)),
                 "[rope] positions ", positions.sizes(),
                 " must be i64 [T] or [B, T], on x's device, for x ", x.sizes());
  PENSTOCK_CHECK(base > 0, "[rope] base must be positive, not ", base);
  return rotation_list(false).run(x, positions, base, adjacent, false);
}

class Rope : public torch::autograd::Function<Rope> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& positions, double base, bool adjacent) {
    context->save_for_backward({positions});
    context->saved_data["base"] = base;
    context->saved_data["adjacent"] = adjacent;
    const at::AutoDispatchBelowADInplaceOrView below;
    return forward_kernel(x, positions, base, adjacent);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {rotation_list(true).run(grads[0], context->get_saved_variables()[0],
                                    context->saved_data["base"].toDouble(),
                                    context->saved_data["adjacent"].toBool(), true),
            {},
            {},
            {}};
  }
};

at::Tensor autograd_kernel(const at::Tensor& x, const at::Tensor& positions, double base,
                           bool adjacent) {
  if (needs_gradient(x)) return Rope::apply(x, positions, base, adjacent);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(x, positions, base, adjacent);
}

}  // namespace

at::Tensor rope(const at::Tensor& x, const at::Tensor& positions, double base, bool adjacent) {
  static const auto handle =
      dispatcher_handle<at::Tensor(const at::Tensor&, const at::Tensor&, double, bool)>("rope");
  return handle.call(x, positions, base, adjacent);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("rope", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("rope", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("rope", penstock::ops::autograd_kernel); }
