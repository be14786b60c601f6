// In which order a stage of a pipeline passes parts through its layers. Only the order: what a pass
// computes and sends is accumulate.h's.
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

/// The passes of one stage, every part forward and backward through each of its chunks.
/// With one chunk 1F1B: stages − 1 − stage parts forward, then in turn one forward and one back, so
/// that a stage holds at most stages − stage parts, however many there are. With several, the
/// layers are dealt to the stages chunk by chunk, and parts go round by groups of `stages`.
/// Idle, of passes that all take equally long: (stages − 1) / (chunks · parts + stages − 1).
/// One stage with one chunk: each part forward and back at once.
/// Backward passes of a chunk go by part, ascending.
/// REQUIRES: stage < stages; with several chunks `stages` divides `parts` (asserted).
/// Source: PipeDream-Flush, arXiv:2006.09503; Megatron-LM, arXiv:2104.04473.
std::vector<StageAction> stage_actions(std::size_t parts, int stage, int stages, int chunks = 1);

/// Most passes through a chunk that the stage holds at a time: forward done, backward not yet.
std::size_t passes_held(std::size_t parts, int stage, int stages, int chunks = 1);

}  // namespace penstock
