// Computes the mean of several runs' curves, with the lowest and highest value at each step.
#pragma once

#include <span>
#include <vector>

#include "penstock/study/runs/run_row.h"

namespace penstock::report {

/// The curve's value at that step, interpolated linearly between points; before the first or after
/// the last point it is that point's value. REQUIRES: at least one point.
double value_at(const study::Curve& curve, double step);

struct MeanCurve {
  std::vector<double> steps, mean, low, high;
};

/// Means at the steps of the first curve, up to the end of the shortest curve; the others are
/// interpolated linearly. With `logarithmic`, means and interpolation are of the logarithms; steps
/// with a value that is not above 0 are left out.
MeanCurve mean_curve(std::span<const study::Curve* const> curves, bool logarithmic);

}  // namespace penstock::report
