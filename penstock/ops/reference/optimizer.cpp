// AdamW and sums of squares in plain ATen.
#include "penstock/ops/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>

namespace penstock::ops::reference {
namespace {

constexpr std::int64_t kLow = 0xffffffff, kUpper = 0xffff0000;

/// The bits of values in f32, as integers from 0 to 2^32 − 1.
at::Tensor bits_of(const at::Tensor& values) {
  return values.to(at::kFloat).contiguous().view(at::kInt).to(at::kLong).bitwise_and_(kLow);
}

at::Tensor shifted(const at::Tensor& x, std::int64_t places) {
  return at::floor_divide(x, std::int64_t{1} << places);
}

/// The draws that AdamWOptions describes, 32 bits each.
at::Tensor draws(const at::Tensor& weight, const at::Tensor& gradient, std::int64_t step) {
  const auto mixed = [](const at::Tensor& x, std::int64_t places, std::int64_t factor) {
    return x.bitwise_xor(shifted(x, places)).mul_(factor).bitwise_and_(kLow);
  };
  at::Tensor x = bits_of(weight).bitwise_and_(kUpper).add_(shifted(bits_of(gradient), 16));
  x = x.add_((step * 0x9e3779b9) & kLow).bitwise_and_(kLow);
  x = mixed(mixed(x, 16, 0x21f0aaad), 15, 0xd35a2d97);
  return x.bitwise_xor(shifted(x, 15));
}

/// Rounds each value to bf16. It rounds away from zero with a probability equal to the fraction
/// that is cut off, else towards zero.
at::Tensor rounded(const at::Tensor& values, const at::Tensor& draw) {
  const at::Tensor upper = shifted(bits_of(values) + draw, 16);
  return upper.to(at::kShort).view(at::kBFloat16);
}

}  // namespace

void adamw_step(const std::vector<AdamWItem>& items, const AdamWOptions& options) {
  const at::NoGradGuard no_grad;
  const double t = static_cast<double>(options.step);
  const double correction1 = 1 - std::pow(options.beta1, t);
  const double correction2 = 1 - std::pow(options.beta2, t);
  for (const auto& [weight, grad, m, v, decay] : items) {
    const auto g = grad * options.grad_scale;
    const auto first = m.to(weight.scalar_type()), second = v.to(weight.scalar_type());
    first.mul_(options.beta1).add_(g, 1 - options.beta1);
    second.mul_(options.beta2).addcmul_(g, g, 1 - options.beta2);
    if (m.scalar_type() != weight.scalar_type()) {
      const at::Tensor draw = draws(weight, g, options.step);
      m.copy_(rounded(first, shifted(draw, 16)));
      v.copy_(rounded(second, draw.bitwise_and(std::int64_t{0xffff})));
    }
    const auto denominator = (second / correction2).sqrt_().add_(options.eps);
    weight.mul_(1 - options.lr * decay);
    weight.addcdiv_(first, denominator, -options.lr / correction1);
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
