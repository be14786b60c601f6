// The data of benches: uniformly drawn tokens, so that no corpus is needed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/data/corpus/batches.h"
#include "penstock/models/language_model.h"
#include "penstock/train/recipe.h"

namespace penstock::bench {

/// The micro-batches of a step, inputs and targets uniform over the vocabulary; a pure function of
/// recipe and step.
std::vector<Batch> synthetic_step(const Recipe& recipe, std::int64_t step);

/// The recipe's model at the start of training. Throws Error for a vocabulary of 0, which stands
/// for the corpus's vocabulary.
std::shared_ptr<LanguageModel> build_model(const Recipe& recipe);

/// Throws Error unless the recipe's device is the CPU.
void check_bench(const Recipe& recipe);

/// Throws Error unless the mean number of experts per token can be set to `active`: the router's
/// number of active experts must vary, as with ReLU, and 0 < active ≤ E.
void check_active_experts(const Recipe& recipe, double active);

}  // namespace penstock::bench
