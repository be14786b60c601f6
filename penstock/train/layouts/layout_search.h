// Searches the layouts of a number of processes for the layout with the fastest estimate that fits
// the memory. It measures nothing and starts nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "penstock/train/layouts/rank_estimate.h"

namespace penstock {

struct PlannedLayout {
  /// the recipe's keys, with this layout's axes, `sequence`, `zero` and `pipeline_chunks`
  ParallelConfig parallel;
  RankEstimate estimate;
};

struct LayoutPlan {
  std::size_t taken = 0;               ///< number of layouts that are valid for the recipe
  std::size_t fitting = 0;             ///< number of these that fit into a rank's memory
  std::vector<PlannedLayout> fastest;  ///< layouts that fit, the fastest first
  std::optional<PlannedLayout> least;  ///< the valid layout that needs the least memory per rank
};

/// Estimates every layout that is valid for a recipe: tensor × pipeline × data = ranks, with each
/// divisor of data as `expert` (of data × tensor with the recipe's whole_experts), each ZeRO stage,
/// each number of chunks, and with and without divided rows. The micro-batch is the recipe's. Of
/// layouts with equal estimates, the layout with smaller axes comes first. Throws Error with the
/// reason if no layout is valid.
/// @param memory  bytes of a rank; 0: no limit.  @param kept  number of layouts in `fastest`
/// Cost: about a millisecond a layout for hundreds of ranks. It does not build the model.
LayoutPlan search_layouts(const Recipe& recipe, int ranks, double memory,
                          const MachineSpeeds& speeds, std::size_t kept = 5);

}  // namespace penstock
