// `penstock study --jobs N`: trains several runs of a study at once, each in its own process.
// study_runner plans the runs and their order.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "penstock/study/study_hooks.h"

namespace penstock {

struct StudyJobs {
  int jobs = 1;
  /// This program's command line for one run, without `--only`.
  std::vector<std::string> command;
  std::FILE* progress = nullptr;  ///< null for silence
};

/// Trains the runs, at most `jobs` at a time. A run begins as soon as those that it waits for have
/// ended. SIGINT, SIGTERM and SIGHUP stop the running ones, which save their state. After such a
/// signal or a failed run, no further run begins.
/// @return false if interrupted. Throws Error that names the first failed run.
bool train_side_by_side(const StudyJobs& options, const std::vector<study::RunToTrain>& runs,
                        const study::SideBySide& study);

}  // namespace penstock
