// `penstock study --jobs N`: runs of a study side by side, each in a process of its own. What a
// study is made of, and what comes after what, is study_runner's.
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

/// Carries those runs out, at most `jobs` at a time. SIGINT, SIGTERM and SIGHUP stop all, which
/// save; then, and where one failed and said why (Error), none is begun any more. @return false
/// when interrupted
bool train_side_by_side(const StudyJobs& how, const std::vector<study::RunToTrain>& runs);

}  // namespace penstock
