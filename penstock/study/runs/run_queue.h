// The order of a study's runs that are trained side by side: a run waits for the runs that it
// needs. It starts nothing; cli/study_jobs.h and run_groups.h do.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace penstock::study {

using RunKey = std::pair<std::string, std::int64_t>;  ///< variant and seed
/// The run in messages: "topk, seed 1".
std::string named(const RunKey& run);

/// A run that may be trained side by side with others.
struct RunToTrain {
  RunKey key;
  int processes = 1;               ///< number of processes that train it together
  std::vector<RunKey> after = {};  ///< runs that have to end before it begins
};

/// The runs that have not ended. It gives each run once, when the runs that it needs have ended.
class RunQueue {
 public:
  /// A run waits for those of its `after` that are among `runs`. REQUIRES: no run waits for itself,
  /// also not by way of others.
  explicit RunQueue(const std::vector<RunToTrain>& runs);

  /// Takes the first run that waits for no other; nothing if all runs that are left have to wait.
  std::optional<RunToTrain> next();
  /// Says that a run which next() gave has ended, or does not begin.
  void ended(const RunKey& run) { open_.erase(run); }
  /// The number of runs that next() has not given yet.
  std::int64_t waiting() const { return std::ssize(waiting_); }

 private:
  std::vector<RunToTrain> waiting_;
  std::set<RunKey> open_;  // keys of the runs that have not ended
};

}  // namespace penstock::study
