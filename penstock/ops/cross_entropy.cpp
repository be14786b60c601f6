// Cross-entropy: checks and gradient. Kept for the backward pass: the logits and one number per row.
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/check.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/reference/decoder.h"

namespace penstock::ops {
namespace {

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& logits,
                            const at::Tensor& targets) {
    auto [loss, logsumexp] = reference::cross_entropy(logits, targets);
    ctx->save_for_backward({logits, targets, logsumexp});
    return loss;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {reference::cross_entropy_backward(grads[0], saved[0], saved[1], saved[2]), {}};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  PENSTOCK_CHECK(logits.dim() == 2 && logits.is_floating_point(),
                 "[cross_entropy] logits must be floating [R, V], not ", logits.sizes());
  PENSTOCK_CHECK(targets.sizes() == logits.sizes().slice(0, 1) && targets.scalar_type() == at::kLong,
                 "[cross_entropy] targets ", targets.sizes(), " must be i64 [R] for logits ",
                 logits.sizes());
  check_index_range(targets, logits.size(1), "cross_entropy", "target");
  return CrossEntropy::apply(logits, targets);
}

}  // namespace penstock::ops
