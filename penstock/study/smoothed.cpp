#include "penstock/study/smoothed.h"

#include <algorithm>
#include <cstddef>

namespace penstock::study {

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
