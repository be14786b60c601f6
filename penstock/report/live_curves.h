// The current curves of a run or a study, for a page that draws them during training. report.h
// reports finished results.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace penstock::report {

class LiveCurves {
 public:
  /// @param directory  directory of a run, or of a study, which may have no run yet
  explicit LiveCurves(std::string directory) : directory_(std::move(directory)) {}

  /// {"title", "finished", "report", "runs": [{"name", "seed", "finished", "steps",
  /// "planned_steps", "curves": {NAME: {"steps", "values"}}}]}, with the runs sorted by name.
  /// "report" says whether a report can be written. Runs without a first step, and damaged runs,
  /// are left out. Any thread may call it. Cost: reads the files of unfinished runs; finished runs
  /// are cached.
  std::string json();

 private:
  std::string directory_;
  std::mutex mutex_;
  std::map<std::string, std::string> finished_;  // by the run's directory
};

}  // namespace penstock::report
