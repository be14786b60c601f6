// The numbers of `penstock info`: parameters, FLOPs and memory of a recipe, as JSON and as text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/train/layouts/rank_estimate.h"
#include "penstock/train/recipe.h"
#include "penstock/train/recompute_choice.h"

namespace penstock {

/// The sizes and costs of a recipe or a model.
struct Figures {
  ParameterCounts counts;
  double flops = 0;            // per sequence, published formula
  double flops_per_token = 0;  // useful, training
  TrainingMemory memory;
  RecomputeChoice recomputation;
};

/// Counts a recipe whose vocabulary is known. Throws Error if the recipe's memory budget is too
/// small.
Figures figures_of(const Recipe& recipe);

/// Bytes over 2^20.
double mebibytes(std::int64_t bytes);

/// All figures, and the model's shape.
nlohmann::ordered_json figures_json(const Recipe& recipe);

/// The memory, traffic and waiting time of each process; null for a single process.
nlohmann::ordered_json parallel_json(const Recipe& recipe, const MachineSpeeds& speeds);

/// Prints all figures.
void print_figures(const Recipe& recipe, const MachineSpeeds& speeds);

}  // namespace penstock
