// Collects the runs of a study that have ended: rows of finished runs, and the reasons why others
// diverged. They come from the runs' folders and from the rows that earlier calls kept.
// study_runner.h trains.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/study/config/study_config.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_plan.h"
#include "penstock/study/study_hooks.h"

namespace penstock::study {

struct EndedRunsOptions {
  std::string kept_rows;          ///< file of finished and diverged runs; "" for none
  std::string reported;           ///< a results.json whose diverged runs count; "" for none
  bool retry_diverged = false;    ///< diverged runs count as missing until they are trained again
  bool repairs = false;           ///< puts a damaged finished.json aside instead of throwing
  std::FILE* progress = nullptr;  ///< null for silence
};

class EndedRuns {
 public:
  /// Reads the files of kept and of reported runs.
  explicit EndedRuns(EndedRunsOptions options);

  /// Records a run that finished or diverged. Returns false for other runs.
  /// @param retried  whether the run was just trained; retry_diverged then has no effect
  bool take(const Variant& variant, std::int64_t seed, const PlannedRun& planned,
            bool retried = false);
  /// The same for finished runs alone.
  bool take_finished(const Variant& variant, std::int64_t seed, const PlannedRun& planned);
  /// Records that the training of a run diverged, also in its folder: later calls will not train
  /// the run again. The other runs go on, because a study may test which rates diverge.
  void diverged(const Variant& variant, std::int64_t seed, const PlannedRun& planned,
                const std::string& reason);
  /// Removes the record of a divergence from the run's folder, before the run is trained again.
  static void forget_divergence(const PlannedRun& planned);

  bool is_finished(const RunKey& run) const { return rows_.contains(run); }
  bool is_missing(const RunKey& run) const {
    return !rows_.contains(run) && !diverged_.contains(run);
  }
  std::size_t count() const { return rows_.size() + diverged_.size(); }
  /// The rows of finished runs. The reference is valid as long as this object.
  const std::map<RunKey, RunRow>& rows() const { return rows_; }
  RunRow& row(const RunKey& run) { return rows_.at(run); }
  /// All runs: variants in the study's order, seeds in order.
  KeptRuns in_order(const StudyConfig& study) const;

 private:
  void keep(const Variant& variant, std::int64_t seed, const PlannedRun& planned, RunRow row);
  void note_diverged(const Variant& variant, std::int64_t seed, const std::string& hash,
                     const std::string& reason);
  std::optional<std::string> divergence(const Variant& variant, std::int64_t seed,
                                        const PlannedRun& planned) const;

  EndedRunsOptions options_;
  KeptRuns kept_;
  std::vector<DivergedRun> reported_;
  std::map<RunKey, RunRow> rows_;
  std::map<RunKey, DivergedRun> diverged_;
};

}  // namespace penstock::study
