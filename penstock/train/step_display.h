// The progress line of a run's steps: smoothed loss and accuracy, what was measured last, the time
// left. When it is shown is the run's to say, and its words stand in run_record.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "penstock/base/processor_share.h"
#include "penstock/base/progress.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

class StepDisplay {
 public:
  /// Shows `steps` steps on `progress`, which must outlive it.
  /// @param smoothing  weight of the steps before in loss and accuracy
  StepDisplay(ProgressLine& progress, std::int64_t steps, double smoothing);

  /// The next step is the first after `step`; the time left is counted from now.
  void begin(std::int64_t step);
  void measured(std::string found) { measured_ = std::move(found); }

  /// Puts a mean over the last steps in the place of the step's own loss and accuracy.
  void smooth(std::int64_t step, StepReport& report);

  /// @param saved  a checkpoint was written since the last line, by a thread of this process: what
  ///               other programs leave of the processors is not known then
  void show(std::int64_t step, const StepOutcome& outcome, const MachineRecord& machine,
            bool saved);

 private:
  using Clock = std::chrono::steady_clock;

  ProgressLine& progress_;
  std::int64_t steps_;
  double smoothing_;
  ProcessorShare processor_;
  Clock::time_point started_ = Clock::now();
  std::int64_t first_step_ = 0;
  double loss_ = 0, accuracy_ = 0;
  std::string measured_;
};

}  // namespace penstock
