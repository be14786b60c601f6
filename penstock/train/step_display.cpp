#include "penstock/train/step_display.h"

#include <optional>

namespace penstock {

StepDisplay::StepDisplay(ProgressLine& progress, std::int64_t steps, double smoothing)
    : progress_(progress), steps_(steps), smoothing_(smoothing) {}

void StepDisplay::begin(std::int64_t step) {
  first_step_ = step;
  since_first_step_ = Stopwatch();
}

void StepDisplay::smooth(std::int64_t step, StepReport& report) {
  const double kept = step == first_step_ + 1 ? 0 : smoothing_;
  report.loss = loss_ = kept * loss_ + (1 - kept) * report.loss;
  report.accuracy = accuracy_ = kept * accuracy_ + (1 - kept) * report.accuracy;
}

void StepDisplay::show(std::int64_t step, const StepOutcome& outcome, const MachineRecord& machine,
                       bool saved) {
  const double seconds = since_first_step_.seconds(),
               left = seconds / static_cast<double>(step - first_step_) *
                      static_cast<double>(steps_ - step);
  std::optional<double> share = processor_.look();
  if (saved) share.reset();
  progress_.show(progress_text(step, steps_, outcome, machine, measured_, left,
                               busy_field(share, machine.threads), progress_.columns()));
}

}  // namespace penstock
