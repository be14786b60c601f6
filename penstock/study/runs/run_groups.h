// Distributes a study's runs over the ranks that a launcher started. Each group has as many ranks
// as a run takes, and trains one run after the other. study_runner.h, on rank 0 only, decides which
// runs there are and uses their results.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/study/config/study_config.h"
#include "penstock/study/study_hooks.h"
#include "penstock/study/study_runner.h"

namespace penstock::study {

/// Every rank constructs one. REQUIRES: all ranks see the study's output folder, recipes and text.
class RunGroups {
 public:
  /// @param options  `progress` gets each group's lines; the other options are used for each run
  /// @param here     ranks on this machine
  RunGroups(const StudyConfig& study, const StudyOptions& options, bool force,
            const dist::ProcessGroup& world, int here);

  /// StudyHooks::train_side_by_side, called on rank 0. Groups take the runs in turn, runs with the
  /// most ranks first. Runs that wait for others are trained when all runs that wait for none have
  /// ended. SIGINT, SIGTERM and SIGHUP stop all runs, which save checkpoints. If a run
  /// fails, no further run begins, and an Error names it.
  bool train(const std::vector<RunToTrain>& runs, const SideBySide& study);
  /// Called on the other ranks: takes part in training until rank 0 calls release().  @return false
  /// if the runs were interrupted
  bool follow();
  /// Called on rank 0 when nothing is left to train. Ranks that have already ended are ignored.
  bool release() noexcept;

 private:
  /// How a group's part of the runs ended.
  struct Ended {
    bool interrupted = false;
    std::string failure;  ///< why a run failed, or ""
  };
  bool train_together(const std::vector<RunToTrain>& runs);
  Ended train_on_all(const std::vector<RunToTrain>& runs);
  Ended train_in_groups(const std::vector<RunToTrain>& runs);
  Ended lead(const dist::ProcessGroup& group, const std::vector<RunToTrain>& runs,
             const std::function<std::optional<std::int64_t>()>& next);
  bool run_alone(const dist::ProcessGroup& group, const RunKey& run);
  void say(const std::string& line) const;

  const StudyConfig& study_;
  const StudyOptions& options_;
  bool force_;
  dist::ProcessGroup world_;
  int here_;
  double memory_;          // bytes for each rank
  bool training_ = false;  // on rank 0: all ranks are training
};

/// The timeout of world_, so that a rank can wait for groups as long as they train. Ranks of one
/// run wait for each other for that run's parallel.timeout.
inline constexpr std::chrono::hours kWaitForGroups{24 * 365};

}  // namespace penstock::study
