#include "penstock/infer/logit_adjustments.h"

#include <cmath>
#include <cstddef>
#include <unordered_map>

#include "penstock/base/error.h"

namespace penstock {

bool LogitAdjustments::none() const {
  return repetition_penalty == 1 && frequency_penalty == 0 && presence_penalty == 0 && bias.empty();
}

void check(const LogitAdjustments& adjustments, std::int64_t vocab) {
  const double repetition = adjustments.repetition_penalty;
  PENSTOCK_CHECK(std::isfinite(repetition) && repetition > 0, "a repetition penalty of ",
                 repetition, " cannot be; 1 changes nothing");
  for (const double penalty : {adjustments.frequency_penalty, adjustments.presence_penalty})
    PENSTOCK_CHECK(std::isfinite(penalty), "a penalty of ", penalty,
                   " cannot be; 0 changes nothing");
  for (const auto& [id, bias] : adjustments.bias) {
    PENSTOCK_CHECK(id >= 0 && id < vocab, "token ", id,
                   " has a bias and is not in the vocabulary of ", vocab);
    PENSTOCK_CHECK(std::isfinite(bias), "the bias of token ", id, " is ", bias);
  }
}

std::vector<float> adjusted_logits(std::span<const float> logits,
                                   const LogitAdjustments& adjustments,
                                   std::span<const TokenId> prompt, std::span<const TokenId> text) {
  std::unordered_map<TokenId, std::int64_t> counts;  // in the text; 0: in the prompt alone
  for (const TokenId token : prompt) counts.emplace(token, 0);
  for (const TokenId token : text) ++counts[token];
  std::vector<float> out(logits.begin(), logits.end());
  for (const auto& [token, count] : counts) {
    const auto id = static_cast<std::size_t>(token);
    // A model may know more ids than its tokenizer, whose ids alone have logits here.
    if (id >= out.size()) continue;
    const double before = out[id], repetition = adjustments.repetition_penalty;
    double logit = before > 0 ? before / repetition : before * repetition;
    if (count > 0)
      logit -=
          adjustments.frequency_penalty * static_cast<double>(count) + adjustments.presence_penalty;
    out[id] = static_cast<float>(logit);
  }
  for (const auto& [id, bias] : adjustments.bias)
    out[static_cast<std::size_t>(id)] += static_cast<float>(bias);
  return out;
}

}  // namespace penstock
