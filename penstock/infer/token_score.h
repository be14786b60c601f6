// How likely a token is by the logits before it, beside the likeliest tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/data/token_id.h"

namespace penstock {

struct LikelyToken {
  TokenId token;
  double logprob;
};

struct TokenScore {
  double logprob = 0;                  ///< log softmax of the logits, before temperature
  std::vector<LikelyToken> likeliest;  ///< the best first, ties by id
};

/// The score of `token` by logits [V], with the `count` likeliest tokens.
/// Throws LogitsError where a logit is NaN or all are −∞.
TokenScore score_of(std::span<const float> logits, TokenId token, std::int64_t count);

}  // namespace penstock
