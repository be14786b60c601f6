// Changes of a model's logits before a token is chosen: penalties for tokens that the sequence has
// already, and biases of single tokens. sampler.h chooses the token.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "penstock/data/token_id.h"

namespace penstock {

struct LogitAdjustments {
  double repetition_penalty = 1;  ///< divides the positive logits of tokens of prompt and text
  double frequency_penalty = 0;   ///< is subtracted for every time that the text has the token
  double presence_penalty = 0;    ///< is subtracted once if the text has the token
  std::vector<std::pair<TokenId, double>> bias = {};  ///< is added to the token's logit

  /// Whether they leave all logits as they are.
  bool none() const;
};

/// Throws Error unless the repetition penalty is positive, all numbers are finite, and the ids of
/// the biases are from 0 to `vocab` - 1.
void check(const LogitAdjustments& adjustments, std::int64_t vocab);

/// The logits [V] from which a token that follows prompt and text is chosen:
///   z_i' = r(z_i) − frequency_penalty · c_i − presence_penalty · [c_i > 0] + bias_i,
///   r(z) = z / repetition_penalty if z > 0, else z · repetition_penalty, for tokens of prompt or
///   text; r(z) = z for others,
/// where c_i counts token i in the text without the prompt. REQUIRES: check(). O(V + tokens).
/// Source: OpenAI's API reference (frequency and presence); Keskar et al., arXiv:1909.05858, 4.1
/// (repetition), with the product for logits that are not positive, as in Hugging Face's and vLLM's
/// implementations.
std::vector<float> adjusted_logits(std::span<const float> logits,
                                   const LogitAdjustments& adjustments,
                                   std::span<const TokenId> prompt, std::span<const TokenId> text);

}  // namespace penstock
