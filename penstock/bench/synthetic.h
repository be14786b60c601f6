// What is measured on: tokens drawn uniformly, so that no corpus is needed.
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

/// The recipe's model as training starts with it. Throws Error for a vocabulary of 0, which waits
/// for a corpus.
std::shared_ptr<LanguageModel> build_model(const Recipe& recipe);

/// Throws Error for a recipe of another device than the processor.
void check_bench(const Recipe& recipe);

/// Throws Error unless the recipe's experts can be held at `active` per token: ReLU-like routing,
/// and 0 < active ≤ E.
void check_active_experts(const Recipe& recipe, double active);

}  // namespace penstock::bench
