#include "penstock/convert/export/fit_bias.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/convert/window_passes.h"

namespace penstock {
namespace {

constexpr std::int64_t kWindowsAtOnce = 8;

/// The sums in the normal equations of one layer.
struct NormalEquations {
  at::Tensor squares;  ///< Xᵀ X, [d, d] f64
  at::Tensor inputs;   ///< Xᵀ 1, [d] f64
};

/// The solution v of (Xᵀ X + λ) v = Xᵀ 1.
at::Tensor least_squares(const NormalEquations& sums) {
  const std::int64_t width = sums.inputs.size(0);
  const double ridge =
      1e-6 * sums.squares.diagonal().mean().item<double>() + std::numeric_limits<double>::min();
  const at::Tensor damped = sums.squares + ridge * at::eye(width, at::kDouble);
  const at::Tensor factor = at::linalg_cholesky(damped);
  return at::cholesky_solve(sums.inputs.unsqueeze(1), factor).squeeze(1);
}

/// Square root of the mean of (x · v − 1)²; the sum is vᵀ Xᵀ X v − 2 vᵀ Xᵀ 1 + T.
double root_mean_square_residual(const NormalEquations& sums, const at::Tensor& v,
                                 std::int64_t tokens) {
  const double sum = v.dot(at::mv(sums.squares, v)).item<double>() -
                     2 * v.dot(sums.inputs).item<double>() + static_cast<double>(tokens);
  return std::sqrt(std::max(0.0, sum / static_cast<double>(tokens)));
}

}  // namespace

CommonDirections common_directions(LanguageModel& model, const at::Tensor& windows) {
  PENSTOCK_CHECK(model.config().moe_layers() > 0, "a dense model has no routers");
  std::vector<NormalEquations> sums(static_cast<std::size_t>(model.config().moe_layers()));
  const RoutingTap tap = [&](std::int64_t layer, const RoutingResult& result) {
    const at::Tensor x = result.hidden.to(at::kDouble).cpu();
    NormalEquations& own = sums.at(static_cast<std::size_t>(layer));
    if (!own.squares.defined())
      own = {at::zeros({x.size(1), x.size(1)}, at::kDouble), at::zeros({x.size(1)}, at::kDouble)};
    own.squares.addmm_(x.t(), x);
    own.inputs.add_(x.sum(0));
  };
  run_over_windows(model, windows, kWindowsAtOnce,
                   [&](const at::Tensor& tokens) { model.forward({.tokens = tokens}, {}, tap); });
  CommonDirections out{.tokens = windows.numel()};
  for (const NormalEquations& own : sums) {
    out.ones.push_back(least_squares(own));
    out.residual =
        std::max(out.residual, root_mean_square_residual(own, out.ones.back(), out.tokens));
  }
  return out;
}

}  // namespace penstock
