// A rank other than 0 in its run: it trains its parts of each step and writes no file.
#pragma once

#include "penstock/dist/group.h"
#include "penstock/train/run_control.h"
#include "penstock/train/trainer.h"

namespace penstock {

/// Does what rank 0 orders until the run ends. SIGINT, SIGTERM and SIGHUP stop the step for all
/// ranks. Throws ReportedByRankZero where rank 0 failed.
RunOutcome follow(Trainer& trainer, const dist::ProcessGroup& group);

}  // namespace penstock
