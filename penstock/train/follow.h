// A rank other than 0 in its run: it trains its parts of each step, and writes no file but its
// piece of a checkpoint where all ranks see the run's directory.
#pragma once

#include "penstock/base/file_system.h"
#include "penstock/dist/group.h"
#include "penstock/train/run_control.h"
#include "penstock/train/trainer.h"

namespace penstock {

/// Bytes that the largest piece of a checkpoint takes, of any rank, and those that training leaves
/// of the memory of the rank with the least. Every rank calls it.
struct PieceRoom {
  std::int64_t piece = 0;
  double left = 0;
};
PieceRoom agree_on_room(Trainer& trainer, const dist::ProcessGroup& group, double left);

/// Does what rank 0 orders until the run ends. SIGINT, SIGTERM and SIGHUP stop the step for all
/// ranks. Throws ReportedByRankZero where rank 0 failed.
/// @param files  through which it writes  @param left  bytes of memory that training leaves
RunOutcome follow(Trainer& trainer, const dist::ProcessGroup& group, FileSystem& files,
                  double left);

}  // namespace penstock
