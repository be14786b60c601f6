#include "penstock/convert/gate_fit.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/ops/top_mask.h"

namespace penstock {
namespace {

constexpr int kSteps = 40;       // steps of a grid in each direction
constexpr double kWide = 1e2;    // the grid's ends: the middle ÷ this and × this
constexpr double kNarrow = 1.3;  // the same for the second grid, around the best scale

/// Σ_t aᵀ M_t b of rows a, b [N, E].
double product(const at::Tensor& a, const at::Tensor& products, const at::Tensor& b) {
  return at::bmm(a.unsqueeze(1), at::bmm(products, b.unsqueeze(2))).sum().item<double>();
}

at::Tensor gates_at(double scale, const at::Tensor& logits, const at::Tensor& kept, GateForm form) {
  const at::Tensor z = logits * scale;
  if (form == GateForm::softmax_over_all) return z.softmax(1) * kept;
  return z.masked_fill(kept.logical_not(), -std::numeric_limits<double>::infinity()).softmax(1);
}

}  // namespace

at::Tensor output_products(const at::Tensor& outputs) {
  const at::Tensor by_token = outputs.detach().to(at::kDouble).transpose(0, 1);  // [N, E, d]
  return at::bmm(by_token, by_token.transpose(1, 2));
}

GateFit fit_gates(const at::Tensor& given, const at::Tensor& products, std::int64_t k,
                  GateForm form) {
  PENSTOCK_ASSERT(form == GateForm::softmax_over_kept || form == GateForm::softmax_over_all);
  const torch::NoGradGuard no_grad;
  const at::Tensor logits = given.to(at::kDouble), relu = logits.clamp_min(0);
  const at::Tensor kept = ops::top_mask(logits, k);
  const double whole = product(relu, products, relu);
  if (whole <= 0) return {.output = 0};
  const double spread = logits.std(1, /*unbiased=*/false).mean().item<double>();
  const double unit = spread > 0 ? 1 / spread : 1;
  GateFit best{.output = 0, .error = 1};
  const auto consider = [&](double scale) {
    const at::Tensor gates = gates_at(scale, logits, kept, form);
    const double with = product(gates, products, relu), own = product(gates, products, gates);
    if (with <= 0 || own <= 0) return;
    const double error = std::max(0.0, 1 - with / own * with / whole);
    if (error < best.error - 1e-12) best = {scale, with / own, error};
  };
  const auto search = [&](double middle, double reach) {
    for (int i = -kSteps; i <= kSteps; ++i)
      consider(middle * std::pow(reach, static_cast<double>(i) / kSteps));
  };
  consider(1);  // stays if no other scale is better, as with one kept logit: its gate is always 1
  search(unit, kWide);
  search(best.scale, kNarrow);
  return best;
}

}  // namespace penstock
