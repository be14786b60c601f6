// Log-probabilities of sequences of tokens, each scored by itself: windows of a text, or texts each
// of which goes on from a context. Corpora are perplexity.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/eval/perplexity.h"

namespace penstock {

struct TokenSequence {
  std::vector<TokenId> ids;       ///< at least two
  std::int64_t first_scored = 1;  ///< those from here on are scored; those before are context
};

struct SequenceOptions {
  std::int64_t k = 0;               ///< experts per token; 0: the model's own
  std::int64_t most_tokens = 4096;  ///< of a pass, but for a single sequence that is longer
  /// How far it is, and what has been scored; of `sofar`, bytes are 0.
  std::function<void(double done, const LossTotals& sofar)> progress;
};

/// Throws Error for an id beyond the model's vocabulary.
void check_ids(std::span<const TokenId> ids, std::int64_t vocab);

/// ln p(ids[i] | ids[0..i−1]) for the scored ids of each sequence, in the sequences' order.
/// Sequences of one length share passes, unless the router reads across rows; nothing is padded but
/// for routers that merge experts per segment, whose rows are filled up to the longest sequence.
/// Puts the model into evaluation mode and back. Throws Error for an id beyond the model's
/// vocabulary.
std::vector<std::vector<double>> score_sequences(LanguageModel& model,
                                                 std::span<const TokenSequence> sequences,
                                                 const SequenceOptions& options = {});

}  // namespace penstock
