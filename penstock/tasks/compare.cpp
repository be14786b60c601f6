#include "penstock/tasks/compare.h"

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"

namespace penstock::tasks {
namespace {

/// P(X ≤ k) of X ~ Binomial(n, ½).
double binomial_half_up_to(std::size_t k, std::size_t n) {
  const auto total = static_cast<double>(n);
  double sum = 0;
  for (std::size_t i = 0; i <= k; ++i) {
    const auto part = static_cast<double>(i);
    sum += std::exp(std::lgamma(total + 1) - std::lgamma(part + 1) - std::lgamma(total - part + 1) -
                    total * std::log(2.0));
  }
  return std::min(1.0, sum);
}

}  // namespace

PairedDifference compare(const TaskResult& a, const TaskResult& b) {
  PENSTOCK_CHECK(a.name == b.name && a.version == b.version && a.items.size() == b.items.size(),
                 "only results of one task on the same items can be compared, not ", a.n,
                 " items of ", a.name, " and ", b.n, " of ", b.name);
  PairedDifference out{.n = a.items.size()};
  for (std::size_t i = 0; i < out.n; ++i) {
    out.only_a += a.items[i].right && !b.items[i].right ? 1 : 0;
    out.only_b += b.items[i].right && !a.items[i].right ? 1 : 0;
  }
  const auto n = static_cast<double>(out.n);
  const double apart = static_cast<double>(out.only_a + out.only_b);
  const double gain = static_cast<double>(out.only_b) - static_cast<double>(out.only_a);
  out.difference = gain / n;
  const double half = 1.959963984540054 * std::sqrt(std::max(0.0, apart - gain * gain / n)) / n;
  out.low = out.difference - half;
  out.high = out.difference + half;
  out.p = std::min(
      1.0, 2 * binomial_half_up_to(std::min(out.only_a, out.only_b), out.only_a + out.only_b));
  return out;
}

nlohmann::ordered_json to_json(const PairedDifference& difference) {
  return {{"difference", difference.difference},
          {"interval", {difference.low, difference.high}},
          {"p", difference.p},
          {"only_a", difference.only_a},
          {"only_b", difference.only_b}};
}

}  // namespace penstock::tasks
