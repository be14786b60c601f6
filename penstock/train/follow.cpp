#include "penstock/train/follow.h"

#include "penstock/train/agreement.h"
#include "penstock/train/interrupt.h"
#include "penstock/train/orders.h"

namespace penstock {

RunOutcome follow(Trainer& trainer, const dist::ProcessGroup& group) {
  const InterruptGuard interrupt;
  const StepWatch watch = [&](const StepPlace&) {
    if (interrupt.signal() != 0) throw StepStopped(interrupt.signal());
  };
  while (true) {
    switch (next_order(group)) {
      case Order::step:
        try {
          trainer.advance(watch);
        } catch (const StepStopped&) {
          // Rank 0 was told with the step's record, and says what comes next.
        }
        break;
      case Order::gather:
        trainer.model_tensors();
        trainer.optimizer_tensors();
        break;
      case Order::gather_whole:
        trainer.gather_whole();
        break;
      case Order::restore:
        trainer.restore(0, {}, {}, "");
        break;
      case Order::wait:
        break;
      case Order::finished:
        return RunOutcome::finished;
      case Order::interrupted:
        return RunOutcome::interrupted;
      case Order::failed:
        throw ReportedByRankZero("rank 0 failed");
    }
  }
}

}  // namespace penstock
