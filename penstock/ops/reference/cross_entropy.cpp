// Cross-entropy in plain ATen.
#include "penstock/ops/cross_entropy.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {

CrossEntropyResult cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const auto logsumexp = at::logsumexp(logits, -1);
  return {logsumexp - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1), logsumexp};
}

at::Tensor cross_entropy_backward(const at::Tensor& grad, const at::Tensor& logits,
                                  const at::Tensor& targets, const at::Tensor& logsumexp) {
  auto out = (logits - logsumexp.unsqueeze(-1)).exp() * grad.unsqueeze(-1);
  out.scatter_add_(-1, targets.unsqueeze(-1), -grad.unsqueeze(-1));
  return out;
}

}  // namespace penstock::ops::reference
