// Log-likelihoods of requests. What the requests of an item have in common is computed once: equal
// texts but for the last token, and with a decoder's cache the tokens that all of them begin with.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "penstock/models/language_model.h"
#include "penstock/tasks/encode.h"

namespace penstock::tasks {

struct RequestScore {
  double loglikelihood = 0;  ///< Σ ln p of the scored tokens
  bool greedy = true;        ///< each of them was the likeliest
};

struct ScoringOptions {
  std::int64_t k = 0;               ///< experts per token; 0: the model's own
  std::int64_t most_tokens = 4096;  ///< of a pass, but for a single sequence that is longer
  bool share_prefixes = true;       ///< where the model can
  /// The part of the work that is done, by tokens.
  std::function<void(double done)> progress;
};

/// Whether what a token computes depends on the tokens before it alone, whatever else its pass
/// holds, and the model keeps keys and values: then a common beginning is read once.
bool can_share_prefixes(const LanguageModel& model);

/// For each item the scores of its requests. Sequences of one length share passes, shortest first;
/// nothing is padded, but for routers that merge experts per segment. Puts the model into
/// evaluation mode and back. Throws Error for an id beyond the model's vocabulary and for a
/// likelihood that is not finite.
std::vector<std::vector<RequestScore>> score_items(LanguageModel& model,
                                                   std::span<const std::vector<TokenRequest>> items,
                                                   const ScoringOptions& options = {});

}  // namespace penstock::tasks
