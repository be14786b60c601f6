// RMSNorm in plain ATen.
#include "penstock/ops/rms_norm.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {

RmsNormResult rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  const auto r = (x.square().mean(-1, /*keepdim=*/true) + eps).rsqrt();  // [..., 1]
  return {x * r * gain, r.reshape({-1})};
}

AddRmsNormResult add_rms_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& gain,
                              double eps) {
  const auto h = x + delta;
  const auto [y, r] = rms_norm(h, gain, eps);
  return {h, y, r};
}

RmsNormGradient rms_norm_backward(const at::Tensor& grad, const at::Tensor& residual,
                                  const at::Tensor& x, const at::Tensor& gain,
                                  const at::Tensor& reciprocal_rms) {
  auto lead = x.sizes().vec();
  lead.back() = 1;
  const auto r = reciprocal_rms.reshape(lead);
  const auto normed = x * r;
  const auto scaled = grad * gain;
  const auto dx = r * (scaled - normed * (scaled * normed).mean(-1, true));
  return {residual.defined() ? dx + residual : dx,
          (grad * normed).reshape({-1, x.size(-1)}).sum(0)};
}

}  // namespace penstock::ops::reference
