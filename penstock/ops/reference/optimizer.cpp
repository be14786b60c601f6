// AdamW and the sum of squares in plain ATen.
#include "penstock/ops/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

namespace penstock::ops::reference {

void adamw_step(const std::vector<AdamWItem>& items, const AdamWOptions& options) {
  const at::NoGradGuard no_grad;
  const double t = static_cast<double>(options.step);
  const double correction1 = 1 - std::pow(options.beta1, t);
  const double correction2 = 1 - std::pow(options.beta2, t);
  for (const auto& [weight, grad, m, v, decay] : items) {
    const auto g = grad * options.grad_scale;
    m.mul_(options.beta1).add_(g, 1 - options.beta1);
    v.mul_(options.beta2).addcmul_(g, g, 1 - options.beta2);
    const auto denominator = (v / correction2).sqrt_().add_(options.eps);
    weight.mul_(1 - options.lr * decay);
    weight.addcdiv_(m, denominator, -options.lr / correction1);
  }
}

double sum_of_squares(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors)
    sum += tensor.detach().to(at::kDouble).square().sum().item<double>();
  return sum;
}

}  // namespace penstock::ops::reference
