// Which processes share the parts of a step, and what each is told on the way. What they come to
// together is accumulate.h's.
#pragma once

#include <functional>
#include <vector>

#include "penstock/dist/group.h"

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

}  // namespace penstock
