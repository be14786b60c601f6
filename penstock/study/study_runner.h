// Carries a study out: which runs are missing, runs them, measures them, gathers rows.
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
  std::string command;            ///< shown as the way to reproduce
  bool report_only = false;       ///< train nothing; finished runs are still measured
  bool retry_diverged = false;    ///< train again, from their last good step, runs that diverged
  std::optional<RunKey> only;     ///< trains that run alone, and neither measures nor reports
  std::FILE* progress = nullptr;  ///< one line per run; null for silence
};

/// The output folder unless another is named: studies/ and the study's name, with its scale.
std::string default_output(const StudyConfig& study);

struct StudyOutcome {
  StudyResults results;
  int left_out = 0;  ///< runs that need one that diverged
  bool interrupted = false;
};

/// Trains every (variant, seed) that neither the output folder nor the kept rows hold finished
/// under the same config hash, seed by seed; unfinished runs resume. All recipes, and whether they
/// fit into memory, are checked before. Variants with match_compute come last within a seed, with
/// as many steps as spend the useful FLOPs that the named variant's run really spent. A run that
/// diverges is kept as such (diverged.json in its folder, and among the kept rows) and the others
/// go on, but for those that need it; while its config stays it is trained again only with
/// retry_diverged. Finished runs whose folder is there are measured where their rows lack what the
/// study asks for, which is no part of their identity; what takes a training of its own comes last,
/// and not with report_only. Results, pages and kept rows are brought up to date after every run.
StudyOutcome run_study(const StudyConfig& study, const StudyOptions& options,
                       const StudyHooks& hooks);

}  // namespace penstock::study
