// Merges the curves of several seeds into one.
#include "penstock/report/mean_curve.h"

#include <algorithm>
#include <cmath>

namespace penstock::report {

using study::Curve;

namespace {

Curve logarithms(const Curve& curve) {
  Curve out;
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    if (curve.values[i] <= 0) continue;
    out.steps.push_back(curve.steps[i]);
    out.values.push_back(std::log(curve.values[i]));
  }
  return out;
}

}  // namespace

double value_at(const Curve& curve, double step) {
  const auto after = std::ranges::lower_bound(curve.steps, step);
  const auto i = static_cast<std::size_t>(after - curve.steps.begin());
  if (after == curve.steps.end()) return curve.values.back();
  if (i == 0 || *after == step) return curve.values[i];
  const double share = (step - curve.steps[i - 1]) / (curve.steps[i] - curve.steps[i - 1]);
  return curve.values[i - 1] + share * (curve.values[i] - curve.values[i - 1]);
}

MeanCurve mean_curve(std::span<const Curve* const> curves, bool logarithmic) {
  std::vector<Curve> used;
  for (const Curve* curve : curves) {
    used.push_back(logarithmic ? logarithms(*curve) : *curve);
    if (used.back().steps.empty()) used.pop_back();
  }
  MeanCurve out;
  if (used.empty()) return out;
  double last = used[0].steps.back();
  for (const Curve& curve : used) last = std::min(last, curve.steps.back());
  const auto back = [&](double value) { return logarithmic ? std::exp(value) : value; };
  for (const double step : used[0].steps) {
    if (step > last) break;
    double sum = 0, low = INFINITY, high = -INFINITY;
    for (const Curve& curve : used) {
      const double value = value_at(curve, step);
      sum += value;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    out.steps.push_back(step);
    out.mean.push_back(back(sum / static_cast<double>(used.size())));
    out.low.push_back(back(low));
    out.high.push_back(back(high));
  }
  return out;
}

}  // namespace penstock::report
