// Computes log-likelihoods of requests. An item's requests share computation: texts that differ
// only in the last token are computed once, and with a decoder's cache so is the common prefix.
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
  bool greedy = true;        ///< each scored token was the likeliest
};

struct ScoringOptions {
  std::int64_t k = 0;               ///< experts per token; 0: the model's own
  std::int64_t most_tokens = 4096;  ///< tokens in a pass; a longer sequence has its own pass
  bool share_prefixes = true;       ///< if can_share_prefixes()
  /// Called with the finished share of the tokens.
  std::function<void(double done)> progress;
};

/// Whether the model can compute a common prefix once. It can if a token's result depends only on
/// the tokens before it, not on other sequences in its pass, and if the model caches keys and
/// values.
bool can_share_prefixes(const LanguageModel& model);

/// Scores the requests of each item. Sequences of the same length share passes, shortest first.
/// Sequences are padded only for routers that merge experts per segment. Puts the model into
/// evaluation mode and restores its mode. Throws Error for an id outside the model's vocabulary and
/// for a log-likelihood that is not finite.
std::vector<std::vector<RequestScore>> score_items(LanguageModel& model,
                                                   std::span<const std::vector<TokenRequest>> items,
                                                   const ScoringOptions& options = {});

}  // namespace penstock::tasks
