#include "penstock/infer/sampler.h"

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

bool likelier(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

void scale(std::vector<Candidate>& list) {
  double total = 0;
  for (const Candidate& candidate : list) total += candidate.probability;
  for (Candidate& candidate : list) candidate.probability /= total;
}

/// The index of the highest logit.
std::size_t highest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]))
      throw LogitsError(concat("the logit of token ", i,
                               " is NaN: the model's activations overflow, or its weights are "
                               "damaged; `penstock doctor` says which"));
    if (logits[i] > logits[best]) best = i;
  }
  if (logits.empty() || !std::isfinite(logits[best]))
    throw LogitsError(
        "no token has a finite logit: the model's activations overflow; `penstock doctor` says "
        "where");
  return best;
}

}  // namespace

void check(const SamplingOptions& options) {
  PENSTOCK_CHECK(std::isfinite(options.temperature) && options.temperature >= 0,
                 "a temperature of ", options.temperature, " cannot be; give 0 or more");
  PENSTOCK_CHECK(options.top_k >= 0, "top-k of ", options.top_k, " cannot be; 0 keeps all");
  PENSTOCK_CHECK(options.top_p > 0 && options.top_p <= 1, "top-p of ", options.top_p,
                 " cannot be; give more than 0 and at most 1");
  PENSTOCK_CHECK(options.min_p >= 0 && options.min_p <= 1, "min-p of ", options.min_p,
                 " cannot be; give 0 to 1");
}

namespace {

/// The tokens that candidates() may keep, in any order: exactly these without top-p, else possibly
/// more. The probabilities are those before the cuts by top-p and then min-p.
std::vector<Candidate> weighted(std::span<const float> logits, const SamplingOptions& options) {
  const std::size_t best = highest(logits);
  if (options.temperature == 0) return {{static_cast<TokenId>(best), 1}};
  std::vector<Candidate> list;
  list.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double above = (static_cast<double>(logits[i]) - logits[best]) / options.temperature;
    list.push_back({static_cast<TokenId>(i), std::exp(above)});
  }
  if (options.top_k > 0 && options.top_k < std::ssize(list)) {
    std::ranges::nth_element(list, list.begin() + options.top_k - 1, likelier);
    list.resize(static_cast<std::size_t>(options.top_k));
  }
  if (options.top_p == 1)  // the likeliest has 1 before the scaling
    std::erase_if(list, [&](const Candidate& c) { return c.probability < options.min_p; });
  scale(list);
  if (options.top_p < 1) {
    // The tokens below `least` have less probability together than the cut removes, so none of them
    // is kept.
    const double least = (1 - options.top_p) / static_cast<double>(list.size());
    std::erase_if(list, [&](const Candidate& c) { return c.probability < least; });
  }
  return list;
}

/// The token at which the running sum of probabilities, the likeliest first, exceeds `draw`. The
/// list's probabilities sum to 1. It sorts only as much of the list as this needs.
TokenId drawn(std::vector<Candidate>& list, double draw) {
  double sum = 0;
  auto from = list.begin();
  for (std::ptrdiff_t count = 64; from != list.end(); count *= 4) {
    const auto to = from + std::min(count, list.end() - from);
    std::ranges::nth_element(from, to - 1, list.end(), likelier);
    std::ranges::sort(from, to, likelier);
    for (; from != to; ++from) {
      sum += from->probability;
      if (draw < sum) return from->token;
    }
  }
  return list.back().token;  // rounding made the sum smaller than 1
}

}  // namespace

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<Candidate> list = weighted(logits, options);
  std::ranges::sort(list, likelier);
  if (options.top_p == 1 || options.temperature == 0) return list;
  double sum = 0;
  std::size_t kept = 0;
  while (kept < list.size() && sum < options.top_p) sum += list[kept++].probability;
  const double least = options.min_p * list.front().probability;
  while (list[kept - 1].probability < least) --kept;
  list.resize(kept);
  scale(list);
  return list;
}

TokenId sample(std::span<const float> logits, const SamplingOptions& options, std::uint64_t stream,
               std::uint64_t index) {
  std::vector<Candidate> list =
      options.top_p < 1 ? candidates(logits, options) : weighted(logits, options);
  const double draw = static_cast<double>(random_bits(options.seed, stream, index) >> 11) * 0x1p-53;
  return drawn(list, draw);
}

}  // namespace penstock
