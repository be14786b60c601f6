#include "penstock/study/statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"

namespace penstock::study {

nlohmann::json to_json(const Spread& spread) {
  using nlohmann::json;
  if (spread.count == 0) return nullptr;
  return {
      {"n", spread.count}, {"mean", spread.mean}, {"sd", spread.sd ? json(*spread.sd) : json()}};
}

nlohmann::json to_json(const PairedDifference& paired) {
  using nlohmann::json;
  return {{"difference", to_json(paired.difference)},
          {"first_lower", paired.lower},
          {"half_width_95", paired.half_width ? json(*paired.half_width) : json()}};
}

Spread spread(std::span<const double> values) {
  Spread out{.count = static_cast<int>(values.size())};
  if (values.empty()) return out;
  double sum = 0;
  for (const double value : values) sum += value;
  out.mean = sum / static_cast<double>(values.size());
  if (values.size() < 2) return out;
  double squares = 0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  out.sd = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return out;
}

PairedDifference paired_difference(std::span<const double> a, std::span<const double> b) {
  PENSTOCK_ASSERT(a.size() == b.size());
  PairedDifference out;
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences.push_back(a[i] - b[i]);
    out.lower += a[i] < b[i];
  }
  out.difference = spread(differences);
  if (out.difference.sd)
    out.half_width = t_quantile_975(out.difference.count - 1) * *out.difference.sd /
                     std::sqrt(static_cast<double>(out.difference.count));
  return out;
}

double t_quantile_975(int degrees_of_freedom) {
  PENSTOCK_ASSERT(degrees_of_freedom >= 1);
  // Printed tables of Student's t, two-sided 5 %.
  static constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                      2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                      2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
  if (degrees_of_freedom <= static_cast<int>(std::size(kTable)))
    return kTable[degrees_of_freedom - 1];
  // Cornish–Fisher in 1/n (Abramowitz & Stegun 26.7.5, two terms): exact to 0.001 for n ≥ 21.
  const double z = 1.959964, n = degrees_of_freedom;
  return z + (z * z * z + z) / (4 * n) +
         (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * n * n);
}

std::vector<double> smoothed(const std::vector<double>& values) {
  const std::size_t reach = std::min<std::size_t>(values.size() / 100, 25);
  std::vector<double> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t side = std::min({reach, i, values.size() - 1 - i});
    double sum = 0;
    for (std::size_t j = i - side; j <= i + side; ++j) sum += values[j];
    out.push_back(sum / static_cast<double>(2 * side + 1));
  }
  return out;
}

}  // namespace penstock::study
