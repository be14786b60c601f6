// The mean of several runs' curves, with the range they span.
#pragma once

#include <span>
#include <vector>

#include "penstock/study/runs/run_row.h"

namespace penstock::report {

/// The curve at that step, between points on the line that joins them; its first or last value
/// outside. REQUIRES: a point.
double value_at(const study::Curve& curve, double step);

struct MeanCurve {
  std::vector<double> steps, mean, low, high;
};

/// Means at the steps of the first curve, up to where the shortest ends; the others are
/// interpolated linearly. With `logarithmic`, means and interpolation are those of the logarithms
/// (values > 0; others are left out).
MeanCurve mean_curve(std::span<const study::Curve* const> curves, bool logarithmic);

}  // namespace penstock::report
