// Chooses the numbers of experts per token (granularity applied) with which a classifier is trained
// and tested.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/finetune/config.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The largest k that the model takes: E, or less if its selector has a lower limit (2 for GShard);
/// 0 if it has no k.
std::int64_t largest_k(const ModelConfig& config);

/// The k of a fine-tuning; 0 if the model has no k.
struct TrainingK {
  std::int64_t train = 0, selection = 0;
};
/// The k that train_k and selection_k give for that model. Throws Error if the model does not take
/// this k.
TrainingK training_k(const ModelConfig& config, const FinetuneConfig& finetune);

/// The values of k for a test, ascending: `wanted` unless that is empty; otherwise powers of two
/// below the largest k, the largest k, and `also`. Empty if the model has no k and none is wanted.
/// Throws Error for a wanted value that the model does not take.
std::vector<std::int64_t> k_points(const ModelConfig& config,
                                   const std::vector<std::int64_t>& wanted, std::int64_t also);

}  // namespace penstock
