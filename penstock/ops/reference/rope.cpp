// Rotary position embedding in plain ATen. Angles are taken in f64 and rounded once.
#include "penstock/ops/rope.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {

at::Tensor rope(const at::Tensor& x, const at::Tensor& positions, double base, bool adjacent,
                bool inverse) {
  const auto half = x.size(3) / 2;
  const auto wide = x.options().dtype(at::kDouble).requires_grad(false);
  const auto exponent = at::arange(half, wide) * (-2.0 / static_cast<double>(x.size(3)));
  const auto angle =
      positions.to(at::kDouble).unsqueeze(-1) * at::pow(at::Scalar(base), exponent);  // [(B,) T, f]
  const auto cos = angle.cos().unsqueeze(-2).to(x.scalar_type());  // [(B,) T, 1, f]
  auto sin = angle.sin().unsqueeze(-2).to(x.scalar_type());
  if (inverse) sin = -sin;

  const auto sizes = x.sizes().vec();
  if (adjacent) {
    const auto pairs = x.reshape({sizes[0], sizes[1], sizes[2], half, 2});
    const auto a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return at::stack({a * cos - b * sin, b * cos + a * sin}, -1).reshape(sizes);
  }
  const auto a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1);
}

}  // namespace penstock::ops::reference
