#include "penstock/infer/logit_adjustments.h"

#include <cmath>
#include <cstddef>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Adds the number of times that each id is among the tokens.
void count_tokens(std::span<const TokenId> tokens, std::vector<std::int64_t>& counts) {
  for (const TokenId token : tokens)
    // A model may know more ids than its tokenizer, whose ids alone have logits here.
    if (const auto id = static_cast<std::size_t>(token); id < counts.size()) ++counts[id];
}

}  // namespace

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
  std::vector<std::int64_t> in_text(logits.size());
  count_tokens(text, in_text);
  std::vector<std::int64_t> in_all = in_text;
  count_tokens(prompt, in_all);
  const double repetition = adjustments.repetition_penalty;
  std::vector<float> out(logits.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    double logit = logits[i];
    if (in_all[i] > 0) logit = logit > 0 ? logit / repetition : logit * repetition;
    if (in_text[i] > 0)
      logit -= adjustments.frequency_penalty * static_cast<double>(in_text[i]) +
               adjustments.presence_penalty;
    out[i] = static_cast<float>(logit);
  }
  for (const auto& [id, bias] : adjustments.bias)
    out[static_cast<std::size_t>(id)] += static_cast<float>(bias);
  return out;
}

}  // namespace penstock
