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

/// Trains the runs, at most `jobs` at a time. SIGINT, SIGTERM and SIGHUP stop all running ones,
/// which save their state. After such a signal, or after a run failed with an Error, no further run
/// begins. @return false if interrupted
bool train_side_by_side(const StudyJobs& how, const std::vector<study::RunToTrain>& runs);

}  // namespace penstock
