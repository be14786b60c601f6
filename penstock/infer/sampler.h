// Chooses a token from logits: greedily, or at random after temperature, top-k, top-p and min-p. A
// draw is a pure function of seed, stream and index, so a text does not depend on the texts that
// are generated at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/data/token_id.h"

namespace penstock {

/// No token can be chosen from a model's logits.
class LogitsError : public Error {
 public:
  using Error::Error;
};

struct SamplingOptions {
  double temperature = 0;  ///< 0: the token with the highest logit, ties to the lowest id
  std::int64_t top_k = 0;  ///< number of highest logits that are kept; 0: all
  double top_p = 1;        ///< keeps the fewest likeliest tokens that sum to this; 1: all
  double min_p = 0;        ///< keeps tokens at least this times as likely as the likeliest; 0: all
  std::uint64_t seed = 0;
};

/// Throws Error unless the temperature is finite and not negative, top_k ≥ 0, 0 < top_p ≤ 1 and
/// 0 ≤ min_p ≤ 1.
void check(const SamplingOptions& options);

struct Candidate {
  TokenId token;
  double probability;
};

/// The tokens that can be drawn, likeliest first, ties by id; the probabilities sum to 1.
///   p = softmax(logits / temperature) over the top_k highest logits, cut after the first token at
///   which the running sum reaches top_p and before the first with p < min_p · max p, and divided
///   by the sum of what is kept.
/// At temperature 0 there is one candidate. Source of top-p: Holtzman et al., arXiv:1904.09751,
/// Eq. 3, here after the temperature; of min-p: Nguyen et al., arXiv:2407.01082, Sec. 3. Throws
/// LogitsError if a logit is NaN or the highest one is infinite.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options);

/// The token among candidates(logits, options) that draw `index` of the stream chooses.
TokenId sample(std::span<const float> logits, const SamplingOptions& options, std::uint64_t stream,
               std::uint64_t index);

}  // namespace penstock
