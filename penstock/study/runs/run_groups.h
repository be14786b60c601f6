// The runs of a study over the ranks that a launcher started: groups of as many ranks as a run
// takes, each of which trains one run after the other. Which runs there are, and what is made of
// them, is study_runner.h's matter, on rank 0 alone.
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
  /// @param options  `progress` gets a line from each group; of the rest what a run alone needs
  /// @param here     ranks on this machine
  RunGroups(const StudyConfig& study, const StudyOptions& options, bool force,
            const dist::ProcessGroup& world, int here);

  /// StudyHooks::train_side_by_side, of rank 0: groups take the runs in turn, those of most ranks
  /// first. SIGINT, SIGTERM and SIGHUP stop all, which save. Where one fails none is begun any
  /// more, and Error names it.
  bool train(const std::vector<RunToTrain>& runs);
  /// Of the other ranks: does its part until rank 0 has called release(). @return false when the
  /// runs were interrupted
  bool follow();
  /// Of rank 0, when there is nothing more to train. Ranks that are gone already are none the less.
  bool release() noexcept;

 private:
  /// The end of a group's part of the runs.
  struct Ended {
    bool interrupted = false;
    std::string failure;  ///< "" or why a run failed
  };
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
  bool training_ = false;  // all ranks are, of rank 0
};

/// A rank waits for groups that are still training, for as long as that takes: what world_ is to be
/// joined with. Ranks of one run wait for each other as long as its parallel.timeout says.
inline constexpr std::chrono::hours kWaitForGroups{24 * 365};

}  // namespace penstock::study
