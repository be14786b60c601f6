// A token's log-probability by the logits before it, with the likeliest tokens in its place.
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
  std::vector<LikelyToken> likeliest;  ///< likeliest first, ties by id
};

/// The score of `token` by logits [V], with the `count` likeliest tokens.
/// Throws LogitsError if a logit is NaN or +∞, or if all are −∞.
TokenScore score_of(std::span<const float> logits, TokenId token, std::int64_t count);

}  // namespace penstock
