#include "penstock/routers/balancers/squared_variation.h"

#include <torch/types.h>

namespace penstock {

at::Tensor squared_variation(const at::Tensor& x) {
  if (x.numel() < 2) return x.sum() * 0;
  const at::Tensor mean = x.mean();
  const at::Tensor variance = (x - mean).square().sum() / static_cast<double>(x.numel() - 1);
  return variance / (mean.square() + 1e-10);
}

}  // namespace penstock
