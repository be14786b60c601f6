// The numbers of experts per token at which a classifier is trained and tested, granularity
// applied.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/finetune/config.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The largest k that the model takes: E, or less where its selector has a limit of its own
/// (GShard's 2); 0 where it has no k.
std::int64_t largest_k(const ModelConfig& config);

/// The k of a fine-tuning; 0 where the model has no k.
struct TrainingK {
  std::int64_t train = 0, selection = 0;
};
/// What train_k and selection_k mean for that model. Throws Error where it takes no such k.
TrainingK training_k(const ModelConfig& config, const FinetuneConfig& finetune);

/// k values for a test: `wanted` where there are any; otherwise powers of two below the largest k,
/// that one, and `also`, ascending. Empty where the model has no k; throws Error where it has none
/// and some are wanted, and for a value that it does not take.
std::vector<std::int64_t> k_points(const ModelConfig& config,
                                   const std::vector<std::int64_t>& wanted, std::int64_t also);

}  // namespace penstock
