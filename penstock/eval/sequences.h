// Log-probabilities of token sequences that are scored separately: windows of a text, or
// continuations of contexts. perplexity.h evaluates corpora.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "penstock/data/token_id.h"
#include "penstock/eval/perplexity.h"

namespace penstock {

struct TokenSequence {
  std::vector<TokenId> ids;       ///< at least two
  std::int64_t first_scored = 1;  ///< index of the first scored id; earlier ids are context
};

struct SequenceOptions {
  std::int64_t k = 0;               ///< experts per token; 0: the model's own
  std::int64_t most_tokens = 4096;  ///< tokens in a pass; a longer sequence has its own pass
  /// Called with the finished share and the totals so far, in which `bytes` is 0.
  std::function<void(double done, const LossTotals& sofar)> progress;
};

/// Throws Error for an id outside the model's vocabulary.
void check_ids(std::span<const TokenId> ids, std::int64_t vocab);

/// ln p(ids[i] | ids[0..i−1]) for the scored ids of each sequence, in the sequences' order.
/// Sequences of equal length share passes, unless the router reads across sequences. Only routers
/// that merge experts per segment need padding: their rows are padded to whole segments of the
/// longest sequence. The model is in evaluation mode during the call. Throws Error for an id
/// outside the model's vocabulary.
std::vector<std::vector<double>> score_sequences(LanguageModel& model,
                                                 std::span<const TokenSequence> sequences,
                                                 const SequenceOptions& options = {});

}  // namespace penstock
