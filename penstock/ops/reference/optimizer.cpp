// AdamW and the sum of squares in plain ATen.
#include <torch/torch.h>

#include <cmath>

#include "penstock/ops/reference/decoder.h"

namespace penstock::ops::reference {

void adamw_step(const at::Tensor& weight, const at::Tensor& grad, const at::Tensor& m,
                const at::Tensor& v, double decay, const AdamWOptions& options) {
  at::NoGradGuard no_grad;
  const double t = static_cast<double>(options.step);
  const auto g = grad * options.grad_scale;
  m.mul_(options.beta1).add_(g, 1 - options.beta1);
  v.mul_(options.beta2).addcmul_(g, g, 1 - options.beta2);
  const auto denominator = (v / (1 - std::pow(options.beta2, t))).sqrt_().add_(options.eps);
  weight.mul_(1 - options.lr * decay);
  weight.addcdiv_(m, denominator, -options.lr / (1 - std::pow(options.beta1, t)));
}

double sum_of_squares(const at::Tensor& x) {
  return x.detach().to(at::kDouble).square().sum().item<double>();
}

}  // namespace penstock::ops::reference
