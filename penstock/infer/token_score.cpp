#include "penstock/infer/token_score.h"

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/infer/sampler.h"

namespace penstock {

TokenScore score_of(std::span<const float> logits, TokenId token, std::int64_t count) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  const double total = most + std::log(sum);
  if (!std::isfinite(total))
    throw LogitsError(concat("the logits before token ", token, " sum to ", total,
                             ": the model's activations overflow, or its weights are damaged; "
                             "`penstock doctor` says which"));
  const auto logit = [&](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  TokenScore out{.logprob = logit(token) - total};
  if (count == 0) return out;
  std::vector<TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto shown = std::min(order.size(), static_cast<std::size_t>(count));
  std::ranges::partial_sort(
      order, order.begin() + static_cast<std::ptrdiff_t>(shown),
      [&](TokenId a, TokenId b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  for (std::size_t i = 0; i < shown; ++i)
    out.likeliest.push_back({order[i], logit(order[i]) - total});
  return out;
}

}  // namespace penstock
