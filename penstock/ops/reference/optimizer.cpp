// AdamW and sums of squares in plain ATen.
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

std::vector<double> square_sums(const std::vector<at::Tensor>& tensors) {
  std::vector<double> out;
  for (const auto& tensor : tensors) {
    const at::Tensor squares = tensor.detach().reshape({-1}).to(at::kDouble).square();
    const std::int64_t pieces = (squares.numel() + kSquarePiece - 1) / kSquarePiece;
    const at::Tensor sums =
        at::constant_pad_nd(squares, {0, pieces * kSquarePiece - squares.numel()})
            .view({pieces, kSquarePiece})
            .sum(1)
            .cpu();
    out.insert(out.end(), sums.data_ptr<double>(), sums.data_ptr<double>() + pieces);
  }
  return out;
}

}  // namespace penstock::ops::reference
