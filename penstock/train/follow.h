// The work of a rank other than 0 in a run. The rank trains its parts of each step. It writes one
// kind of file: its piece of a checkpoint, where all ranks see the run's directory.
#pragma once

#include "penstock/base/file_system.h"
#include "penstock/dist/group.h"
#include "penstock/train/run_control.h"
#include "penstock/train/trainer.h"

namespace penstock {

/// Memory for writing pieces of checkpoints, over all ranks.
struct PieceRoom {
  std::int64_t piece = 0;  ///< bytes of the largest piece of a checkpoint that any rank writes
  double left = 0;         ///< bytes that training leaves on the rank with the least memory left
};
/// Finds these figures. Every rank calls it.
/// @param left  bytes of memory that training leaves on this rank
PieceRoom agree_on_room(Trainer& trainer, const dist::ProcessGroup& group, double left);

/// Does what rank 0 orders until the run ends. SIGINT, SIGTERM and SIGHUP stop the step for all
/// ranks. Throws ReportedByRankZero where rank 0 failed.
/// @param files  file system to write to
/// @param left   bytes of memory that training leaves on this rank
RunOutcome follow(Trainer& trainer, const dist::ProcessGroup& group, FileSystem& files,
                  double left);

}  // namespace penstock
