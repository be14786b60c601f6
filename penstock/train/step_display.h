// The progress line of a run's steps: smoothed loss and accuracy, the last measurement, the time
// left. The run decides when to show it. run_record.h writes its text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "penstock/base/processor_share.h"
#include "penstock/base/progress.h"
#include "penstock/base/stopwatch.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

class StepDisplay {
 public:
  /// Shows `steps` steps on `progress`, which must outlive it.
  /// @param smoothing  weight of the earlier steps in loss and accuracy
  StepDisplay(ProgressLine& progress, std::int64_t steps, double smoothing);

  /// Starts the clock after `step`. The steps from here on give the estimate of the time left.
  void begin(std::int64_t step);
  void measured(std::string found) { measured_ = std::move(found); }

  /// Replaces the step's own loss and accuracy by an exponential moving average over the steps.
  void smooth(std::int64_t step, StepReport& report);

  /// @param saved  whether a thread of this process wrote a checkpoint since the last line: the
  ///               share of the processors that other programs leave is then unknown
  void show(std::int64_t step, const StepOutcome& outcome, const MachineRecord& machine,
            bool saved);

 private:
  ProgressLine& progress_;
  std::int64_t steps_;
  double smoothing_;
  ProcessorShare processor_;
  Stopwatch since_first_step_;
  std::int64_t first_step_ = 0;
  double loss_ = 0, accuracy_ = 0;
  std::string measured_;
};

}  // namespace penstock
