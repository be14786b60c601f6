// The order in which a stage of a pipeline passes parts through its layers. It does not compute or
// send; step_parts.h does.
#pragma once

#include <cstddef>
#include <vector>

#include "penstock/models/language_model.h"

namespace penstock {

/// One pass of a part through a chunk: consecutive layers of a stage.
struct StageAction {
  PassDirection direction = PassDirection::forward;
  std::size_t part = 0;
  int chunk = 0;
  friend bool operator==(const StageAction&, const StageAction&) = default;
};

/// The passes of one stage: every part forward and backward through each chunk of the stage.
/// With one chunk the order is 1F1B: stages − 1 − stage parts forward, then one forward and one
/// backward in turn. So a stage holds at most stages − stage parts, for any number of parts. With
/// several chunks the stages get the layers chunk by chunk in turn, and the parts pass through all
/// chunks in groups of `stages` parts.
/// Idle share, if all passes take the same time: (stages − 1) / (chunks · parts + stages − 1).
/// One stage with one chunk: each part forward and then backward.
/// The backward passes of a chunk go through the parts in ascending order.
/// REQUIRES: stage < stages; with several chunks `stages` divides `parts` (asserted).
/// Source: PipeDream-Flush, arXiv:2006.09503; Megatron-LM, arXiv:2104.04473.
std::vector<StageAction> stage_actions(std::size_t parts, int stage, int stages, int chunks = 1);

/// The most passes through a chunk that the stage holds at a time. It holds a pass from the forward
/// to the backward pass.
std::size_t passes_held(std::size_t parts, int stage, int stages, int chunks = 1);

}  // namespace penstock
