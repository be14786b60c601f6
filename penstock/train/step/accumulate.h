// The gradients of a step's parts, and one report of all of them. The update is step.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/train/step/step_place.h"
#include "penstock/train/step/step_report.h"
#include "penstock/train/step/step_work.h"

namespace penstock {

/// How the parts of a step are shared between processes.
struct PartSharing {
  dist::ProcessGroup data;  ///< the ranks that divide the parts
  /// Those that hold one model between them, in the order of its layers.
  dist::ProcessGroup stages;
  dist::ProcessGroup world;  ///< all
  /// Of ranks that take part in each other's passes, by tensors or experts, and so go through the
  /// same schedule side by side; none where every rank passes by itself.
  std::vector<dist::ProcessGroup> peers;
  /// Whether what this rank sees is of the report: not where another one sees the same.
  bool counts = true;
  /// Called after the backward pass of each part; may be null.
  std::function<void()> after_part = {};
  /// Called once after this rank's parts, also where one failed, before the ranks tell each other
  /// what they saw; may be null.
  std::function<void()> after_parts = {};
  /// Seconds that this rank's passes have waited for weights of other ranks; null: never.
  std::function<double()> waited = {};
  /// Whether weights are there to run a part again and see in which layer it was not finite.
  bool replays = true;
};

/// Adds the gradients of what this rank's parts (parts_of_rank) minimise to those of the model's
/// parameters: of the whole model, or, where stages hold it between them, of this stage's layers.
/// Stops early, without gradients to trust, when a loss is not finite. With several ranks each
/// returns the same report of all parts (but for the seconds), and what stops or fails one is
/// thrown on all. Peers stop between two passes; what fails one of them in the middle of a pass is
/// thrown there at once, and the others lose that rank.
/// @param context  without a generator
/// @param draw_seed  seeds stochastic routers and dropout; the same value draws the same numbers
/// @param memory  by part, what its rows carry from step to step; grows to their number. To be
///                thrown away where the step fails.
/// @param watch  told of each part's layers, may be null; what it throws is passed on, and leaves
///               part of the gradients behind
StepReport accumulate(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      std::vector<ModelMemory>& memory, const StepWatch& watch = {},
                      const PartSharing& sharing = {});

}  // namespace penstock
