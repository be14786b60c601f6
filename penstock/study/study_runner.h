// Carries out a study: finds the missing runs, trains them, measures them and collects their rows.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "penstock/study/config/study_config.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/study_hooks.h"

namespace penstock::study {

struct StudyOptions {
  std::string output;             ///< folder for runs/, results.json, results.txt and report.html
  std::string kept_rows;          ///< file of finished rows to use and to extend; "" for none
  std::string command;            ///< the command shown for reproducing the study
  bool report_only = false;       ///< trains nothing; finished runs are still measured
  bool retry_diverged = false;    ///< retrains diverged runs from their last good step
  std::optional<RunKey> only;     ///< trains only this run, and neither measures nor reports
  std::FILE* progress = nullptr;  ///< one line per run; null for silence
};

/// The default output folder: studies/ and the study's name, with its scale.
std::string default_output(const StudyConfig& study);

struct StudyOutcome {
  StudyResults results;
  int left_out = 0;  ///< number of runs that need a diverged run
  bool interrupted = false;
};

/// Trains, seed by seed, every (variant, seed) that is not finished under the same config hash in
/// the output folder or in the kept rows. Unfinished runs resume. All recipes, and whether they fit
/// into memory, are checked first. Variants with match_compute are trained last within a seed;
/// their number of steps is chosen to spend the same useful FLOPs as the named variant's run. A
/// diverged run is recorded (diverged.json in its folder, and in the kept rows); the other runs
/// continue, except those that need it. While its config is unchanged, it is trained again only
/// with retry_diverged. Finished runs whose folder exists are measured if their rows lack a
/// measurement of the study; measurements are not part of a run's identity. Measurements that need
/// their own training come last, and are skipped with report_only. Results, pages and kept rows are
/// updated after every run.
StudyOutcome run_study(const StudyConfig& study, const StudyOptions& options,
                       const StudyHooks& hooks);

}  // namespace penstock::study
