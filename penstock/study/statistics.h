// Means, spreads and paired differences over seeds, and moving means.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

namespace penstock::study {

/// Mean and sample standard deviation, sd = √(Σ(x−x̄)² / (n−1)).
struct Spread {
  int count = 0;
  double mean = 0;
  std::optional<double> sd;  ///< absent for fewer than two values
};
/// {"n", "mean", "sd"}; null without values.
nlohmann::json to_json(const Spread& spread);
/// The spread of these values; its mean is 0 if there are none.
Spread spread(std::span<const double> values);

/// Differences a[i] − b[i] of runs with the same seed.
struct PairedDifference {
  Spread difference;
  int lower = 0;  ///< number of pairs in which a is below b
  /// Half the width of the 95 % interval of the mean, t(0.975, n−1)·sd/√n; absent for fewer than
  /// two pairs.
  std::optional<double> half_width;
};
/// {"difference", "first_lower", "half_width_95"}.
nlohmann::json to_json(const PairedDifference& paired);
/// The differences a_i − b_i and their 95 % interval by Student's t. REQUIRES: equally many of
/// both.
PairedDifference paired_difference(std::span<const double> a, std::span<const double> b);

/// The 0.975 quantile of Student's t, for 1 degree of freedom or more.
double t_quantile_975(int degrees_of_freedom);

/// The mean of a window around each point. The window is a fiftieth of the values wide, with at
/// most 25 on each side; at both ends it shrinks on both sides, so that it stays symmetric.
std::vector<double> smoothed(const std::vector<double>& values);

}  // namespace penstock::study
