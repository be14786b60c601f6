// Searches the layouts of a number of processes for the one with the fastest estimate that fits
// their memory. It measures nothing and starts nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "penstock/train/layouts/rank_estimate.h"

namespace penstock {

struct PlannedLayout {
  ParallelConfig parallel;  ///< the recipe's, with the layout, `sequence`, `zero` and
                            ///< `pipeline_chunks` in it
  RankEstimate estimate;
};

struct LayoutPlan {
  std::size_t taken = 0;               ///< layouts that the recipe takes
  std::size_t fitting = 0;             ///< of these, with a rank's memory in the limit
  std::vector<PlannedLayout> fastest;  ///< of those that fit, the fastest first
  std::optional<PlannedLayout> least;  ///< of all, the one that takes the least memory of a rank
};

/// Estimates every layout that a recipe takes: tensor × pipeline × data = ranks, with each divisor
/// of data (of data × tensor with the recipe's whole_experts) as `expert`, each stage of ZeRO, each
/// number of chunks, and rows divided or not. The micro-batch is the recipe's. One that needs more
/// of several axes for the same estimates comes behind. Throws Error that says why the recipe takes
/// none, if so.
/// @param memory  bytes of a rank; 0: no limit.  @param kept  how many of the fastest
/// Cost: about a millisecond a layout for hundreds of ranks; nothing of the model is built.
LayoutPlan search_layouts(const Recipe& recipe, int ranks, double memory,
                          const MachineSpeeds& speeds, std::size_t kept = 5);

}  // namespace penstock
