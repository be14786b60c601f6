// The balancers' losses, computed entry by entry. The test compares a combination's loss with their
// sum.
#include <algorithm>
#include <cmath>
#include <limits>

#include "penstock/base/error.h"
#include "tests/routers/parts.h"
#include "tests/routers/properties.h"

namespace penstock::testing {
namespace {

/// The n-th largest entry of a row; n counts from 1.
double nth_largest(const at::TensorAccessor<double, 1>& row, std::int64_t n) {
  std::vector<double> sorted;
  for (std::int64_t e = 0; e < row.size(0); ++e) sorted.push_back(row[e]);
  std::sort(sorted.rbegin(), sorted.rend());
  return sorted[static_cast<std::size_t>(n - 1)];
}

/// Unbiased variance over squared mean.
double squared_variation(const std::vector<double>& x) {
  double mean = 0, square = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) square += (v - mean) * (v - mean) / static_cast<double>(x.size() - 1);
  return square / (mean * mean + 1e-10);
}

bool without_loss(const std::string& balancer) {
  return balancer == "loss-free" || balancer == "threshold" || balancer == "expert-threshold";
}

/// The balancer's loss, entry by entry from its published formula. @param requested  choices per
/// token that count before any is refused; 0 to count the plan's assignments instead
double loss_by_hand(const std::string& name, const Scores& scores, const Plan& plan, double lambda,
                    std::int64_t requested) {
  const at::Tensor noisy = scores.logits.detach().contiguous();
  const at::Tensor clean =
      scores.clean_logits.defined() ? scores.clean_logits.detach().contiguous() : noisy;
  const auto z = noisy.accessor<double, 2>();
  const auto c = clean.accessor<double, 2>();
  const std::int64_t rows = noisy.size(0), experts = noisy.size(1);
  if (without_loss(name)) return 0;
  if (name == "z-loss") {
    double sum = 0;
    for (std::int64_t t = 0; t < rows; ++t) {
      double total = 0;
      for (std::int64_t e = 0; e < experts; ++e) total += std::exp(z[t][e]);
      sum += std::log(total) * std::log(total);
    }
    return 0.2 * sum / static_cast<double>(rows);
  }
  const at::Tensor weights = dense_weights(plan), mask = dense_mask(plan);
  const auto w = weights.accessor<double, 2>();
  const auto on = mask.accessor<bool, 2>();
  const auto tokens = static_cast<double>(plan.tokens), tokens_scored = static_cast<double>(rows);
  double loss = 0;
  std::vector<double> importance, loads;
  for (std::int64_t e = 0; e < experts; ++e) {
    double count = 0, gates = 0, probability = 0, load = 0;
    for (std::int64_t t = 0; t < rows; ++t) {
      double total = 0;
      for (std::int64_t i = 0; i < experts; ++i) total += std::exp(c[t][i]);
      // A leak's assignments have gates of 0 and are not counted.
      const bool counts =
          requested > 0 ? z[t][e] >= nth_largest(z[t], requested) : on[t][e] && w[t][e] != 0;
      count += counts ? 1 : 0;
      gates += w[t][e];
      probability += std::exp(c[t][e]) / total;
      if (scores.noise_scale.defined()) {  // the k-th highest of the other experts' logits
        const double rank = z[t][e] > nth_largest(z[t], 3) ? 3 : 2;
        const double distance = c[t][e] - nth_largest(z[t], static_cast<std::int64_t>(rank));
        const double scale = scores.noise_scale[t][e].item<double>();
        load += 0.5 * std::erfc(-distance / scale / std::sqrt(2.0));
      }
    }
    importance.push_back(gates);
    loads.push_back(load);
    if (name == "load-balance")
      loss += 0.5 * static_cast<double>(experts) * count /
              (static_cast<double>(requested > 0 ? requested : 2) * tokens) * probability / tokens;
    else if (name == "locality")  // expert 0 is local to this rank; the others share 0.2
      loss += 0.3 * probability / tokens_scored *
              std::log(probability / tokens_scored /
                       (e == 0 ? 0.8 : 0.2 / static_cast<double>(experts - 1)));
    else if (name == "adaptive-l1")
      loss += lambda * static_cast<double>(experts) / (2 * tokens * tokens) * count * gates;
  }
  if (name == "load-balance" || name == "adaptive-l1" || name == "locality") return loss;
  if (name == "importance") return 0.3 * squared_variation(importance);
  if (name == "load") return 0.4 * squared_variation(loads);
  // NaN fails the comparison: this balancer has no formula here.
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string losses_agree(Combination& parts) {
  const Input input = parts.random_input(13);
  if (parts.run(input, 7, /*training=*/false).routing.loss.defined())
    return "a loss outside training";
  const RoutingResult routing = parts.run(input).routing;
  const auto& names = parts.resolved().balancers;
  if (names.empty()) return routing.loss.defined() ? "a loss without balancers" : "";
  if (!routing.loss.defined()) return std::ranges::all_of(names, without_loss) ? "" : "no loss";
  const std::string& selector = parts.resolved().selector;
  const std::int64_t requested = selector == "gshard" ? 1 : selector == "topk-capacity" ? 2 : 0;
  double expected = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto state = parts.balancers()[i]->state();
    const double lambda = state.contains("lambda") ? state.at("lambda") : 0;
    expected += loss_by_hand(names[i], routing.scores, routing.plan, lambda, requested);
  }
  const double actual = routing.loss.item<double>();
  return std::abs(actual - expected) <= 1e-10 * std::max(1.0, std::abs(expected))
             ? ""
             : concat("loss ", actual, ", by hand ", expected);
}

}  // namespace penstock::testing
