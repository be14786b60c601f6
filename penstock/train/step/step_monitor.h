// Watches the steps of a run for a person: stops one between layers after a signal, and says of a
// long one what it is doing. The steps themselves are the trainer's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "penstock/base/progress.h"
#include "penstock/train/interrupt.h"
#include "penstock/train/step_place.h"

namespace penstock {

class StepMonitor {
 public:
  struct Options {
    std::string part = "micro-batch";        ///< what the parts of a step are called
    std::chrono::duration<double> quiet{3};  ///< how long a step goes on without a word
    std::chrono::duration<double> pause{5};  ///< between two words on it
  };
  /// Talks on `progress`, which belongs to a thread of its own while a step lasts, unless it is
  /// silent. REQUIRES: both outlive it.
  StepMonitor(const InterruptGuard& interrupt, ProgressLine& progress, Options options);
  ~StepMonitor();
  StepMonitor(const StepMonitor&) = delete;
  StepMonitor& operator=(const StepMonitor&) = delete;

  /// What `action(watch)` returns, which computes step `step` of `steps` and calls the StepWatch on
  /// its way. The watch throws StepStopped once a signal has come.
  template <class Action>
  auto during(std::int64_t step, std::int64_t steps, const Action& action) {
    const Step scope(*this, step, steps);
    return action([this](const StepPlace& place) { at(place); });
  }
  /// Whether something was said of the last step: its end is worth a line then.
  bool spoke() const { return spoke_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// While a step lasts.
  class Step {
   public:
    Step(StepMonitor& monitor, std::int64_t step, std::int64_t steps);
    ~Step();

   private:
    StepMonitor& monitor_;
  };

  void at(const StepPlace& place);
  void talk(const std::stop_token& stop);
  std::string text() const;

  const InterruptGuard& interrupt_;
  ProgressLine& progress_;
  Options options_;
  std::mutex mutex_;  // of all below
  std::condition_variable_any changed_;
  bool running_ = false;
  bool said_stopping_ = false;  // where a signal met the step
  std::int64_t step_ = 0, steps_ = 0;
  std::optional<StepPlace> place_;
  Clock::time_point start_{}, next_word_{};
  std::atomic<bool> spoke_ = false;
  std::jthread talker_;  // last: it uses the others
};

}  // namespace penstock
