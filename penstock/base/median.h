// The median of a list of numbers. Not for other quantiles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace penstock {

/// The middle value, or the mean of the two middle values; 0 if there are no values.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace penstock
