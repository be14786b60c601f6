// A run's or a study's curves as they are at the moment, for a page that draws them while the
// training goes on. What is said of finished results is report.h's.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace penstock::report {

class LiveCurves {
 public:
  /// @param directory  of a run, or of a study, which may have no run yet
  explicit LiveCurves(std::string directory) : directory_(std::move(directory)) {}

  /// {"title", "finished", "report", "runs": [{"name", "seed", "finished", "steps",
  /// "planned_steps", "curves": {NAME: {"steps", "values"}}}]}, the runs by name. "report" says
  /// whether a report can be written. Runs whose first step is yet to come, and damaged ones, are
  /// left out. Any thread. Cost: reads what is not finished; finished runs are kept.
  std::string json();

 private:
  std::string directory_;
  std::mutex mutex_;
  std::map<std::string, std::string> finished_;  // by the run's directory
};

}  // namespace penstock::report
