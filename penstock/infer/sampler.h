// Choosing a token from logits: greedily, or at random after temperature, top-k and top-p. Draws
// are a pure function of seed, stream and index, so that a text does not depend on what is
// generated beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/data/token_id.h"

namespace penstock {

/// A model's logits from which no token can be chosen.
class LogitsError : public Error {
 public:
  using Error::Error;
};

struct SamplingOptions {
  double temperature = 0;  ///< 0: the token of the highest logit, ties to the lowest id
  std::int64_t top_k = 0;  ///< only so many of the highest logits; 0: all
  double top_p = 1;        ///< only the fewest of the likeliest that reach this together; 1: all
  std::uint64_t seed = 0;
};

/// Throws Error unless the temperature is finite and not negative, top_k ≥ 0 and 0 < top_p ≤ 1.
void check(const SamplingOptions& options);

struct Candidate {
  TokenId token;
  double probability;
};

/// What may be drawn, likeliest first, ties by id; the probabilities sum to 1.
///   p = softmax(logits / temperature) over the top_k highest logits, cut behind the first place at
///   which the sum reaches top_p, over what is kept.
/// At temperature 0 one candidate. Source of top-p: Holtzman et al., arXiv:1904.09751, Eq. 3, cut
/// after the temperature. Throws LogitsError where a logit is NaN or all are −∞.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options);

/// The draw number `index` of a stream among candidates(logits, options).
TokenId sample(std::span<const float> logits, const SamplingOptions& options, std::uint64_t stream,
               std::uint64_t index);

}  // namespace penstock
