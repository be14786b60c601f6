// Cross-entropy: checks, implementations, gradient, dispatcher registration. The backward pass
// keeps the logits and one number per row.
#include "penstock/ops/cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"

namespace penstock::ops {
namespace {

using Forward = CrossEntropyResult(const at::Tensor&, const at::Tensor&);
using Backward = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const at::Tensor&);

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "cross_entropy", {{"cpu",
                         [](const at::Tensor& logits, const at::Tensor& targets) {
                           return cpu::declines({logits, targets});
                         },
                         cpu::cross_entropy},
                        {"reference", nullptr, reference::cross_entropy}});
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "cross_entropy.backward", {{"cpu",
                                  [](const at::Tensor& grad, const at::Tensor& logits,
                                     const at::Tensor& targets, const at::Tensor& logsumexp) {
                                    return cpu::declines({grad, logits, targets, logsumexp});
                                  },
                                  cpu::cross_entropy_backward},
                                 {"reference", nullptr, reference::cross_entropy_backward}});
  return list;
}

CrossEntropyResult checked_forward(const at::Tensor& logits, const at::Tensor& targets) {
  PENSTOCK_CHECK(logits.dim() == 2, "[cross_entropy] logits must be [R, V], not ", logits.sizes());
  check_same_kind({logits}, "cross_entropy");
  PENSTOCK_CHECK(targets.sizes() == logits.sizes().slice(0, 1) &&
                     targets.scalar_type() == at::kLong && targets.device() == logits.device(),
                 "[cross_entropy] targets ", targets.sizes(),
                 " must be i64 [R], on the logits' device, for logits ", logits.sizes());
  check_index_range(targets, logits.size(1), "cross_entropy", "target");
  return forward_list().run(logits, targets);
}

at::Tensor forward_kernel(const at::Tensor& logits, const at::Tensor& targets) {
  return std::get<0>(checked_forward(logits, targets));
}

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [loss, logsumexp] = checked_forward(logits, targets);
    context->save_for_backward({logits, targets, logsumexp});
    return loss;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    return {backward_list().run(grads[0], saved[0], saved[1], saved[2]), {}};
  }
};

at::Tensor autograd_kernel(const at::Tensor& logits, const at::Tensor& targets) {
  if (needs_gradient(logits)) return CrossEntropy::apply(logits, targets);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(logits, targets);
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  static const auto handle =
      dispatcher_handle<at::Tensor(const at::Tensor&, const at::Tensor&)>("cross_entropy");
  return handle.call(logits, targets);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("cross_entropy", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("cross_entropy", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) {
  m.impl("cross_entropy", penstock::ops::autograd_kernel);
}
