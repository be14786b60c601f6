#include "penstock/eval/accuracy_interval.h"

#include <algorithm>
#include <cmath>

namespace penstock {

AccuracyInterval accuracy_interval(double p, double n) {
  constexpr double z = 1.959963984540054;
  const double scale = 1 + z * z / n;
  const double middle = (p + z * z / (2 * n)) / scale;
  const double half = z / scale * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {.low = std::max(0.0, middle - half), .high = std::min(1.0, middle + half)};
}

}  // namespace penstock
