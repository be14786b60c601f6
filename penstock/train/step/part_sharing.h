// The groups of processes that share the parts of a step, and the functions that a step calls
// meanwhile. accumulate.h joins the results of the processes.
#pragma once

#include <functional>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// How the parts of a step are shared between processes.
struct PartSharing {
  dist::ProcessGroup data;  ///< the ranks that divide the parts
  /// The ranks of a pipeline, in the order of the model's layers.
  dist::ProcessGroup stages;
  dist::ProcessGroup world;  ///< all ranks
  /// Groups of ranks that divide tensors or experts. They take part in each other's passes, so they
  /// follow the same schedule at the same time. Empty if each rank makes its passes alone.
  std::vector<dist::ProcessGroup> peers;
  /// Whether this rank's records count in the report. False if another rank has equal records.
  bool counts = true;
  /// Called after the backward pass of each part; may be null.
  std::function<void()> after_part = {};
  /// Called once after this rank's parts, even if one failed, before the ranks exchange their
  /// records; may be null.
  std::function<void()> after_parts = {};
  /// Seconds that this rank's passes have waited for weights of other ranks; null: never.
  std::function<double()> waited = {};
  /// Whether a part can run again to find the layer whose output is not finite. The weights have
  /// to be present for that.
  bool replays = true;
};

}  // namespace penstock
