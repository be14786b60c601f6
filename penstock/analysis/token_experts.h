// Which experts each token of the vocabulary is sent to, and to how many: ReMoE's Figure 7 and
// Table 12 (arXiv:2412.14711). Counting only; how it is shown is penstock/study's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/data/corpus.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

struct TokenExpertsOptions {
  Split split = Split::kTest;
  std::int64_t max_tokens = 0;       ///< evenly spaced windows up to this many; 0: the whole split
  std::int64_t sequence_length = 0;  ///< of a window; 0: the model's context
  std::int64_t moe_layer = -1;       ///< whose experts are told apart; -1: the middle one
  std::function<void(double)> progress;
};

/// Sums by token id, over the places of the text where the token is read.
struct TokenExperts {
  std::int64_t tokens = 0;     ///< places
  std::int64_t moe_layer = 0;  ///< whose experts are told apart
  std::vector<double> count;   ///< [V], places with that token
  std::vector<double> active;  ///< [V], assignments over all MoE layers ÷ MoE layers
  std::vector<std::vector<double>> by_expert;  ///< [E][V], assignments in that layer
};

/// One pass over windows of the split in evaluation mode, without memory between them.
/// Throws Error for a dense model, one that blends experts, and a layer that it does not have.
TokenExperts count_token_experts(LanguageModel& model, const Corpus& corpus,
                                 const TokenExpertsOptions& options);

}  // namespace penstock::analysis
