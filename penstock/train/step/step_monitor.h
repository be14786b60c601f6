// Watches the steps of a run for its user: stops a step between layers after a signal, and shows
// the progress of a long step. The trainer makes the steps.
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
    std::string part = "micro-batch";        ///< name of a step's parts in the text
    std::chrono::duration<double> quiet{3};  ///< time in a step before the first text
    std::chrono::duration<double> pause{5};  ///< time between two texts
  };
  /// Shows texts on `progress`, unless `progress` is silent. During a step only the monitor's
  /// thread may use `progress`. REQUIRES: both outlive the monitor.
  StepMonitor(const InterruptGuard& interrupt, ProgressLine& progress, Options options);
  ~StepMonitor();
  StepMonitor(const StepMonitor&) = delete;
  StepMonitor& operator=(const StepMonitor&) = delete;

  /// Returns action(watch). `action` computes step `step` of `steps` and calls the StepWatch on its
  /// way. The watch throws StepStopped once a signal has come.
  template <class Action>
  auto during(std::int64_t step, std::int64_t steps, const Action& action) {
    const Step scope(*this, step, steps);
    return action([this](const StepPlace& place) { at(place); });
  }
  /// Whether a text was shown in the last step. The caller then also reports the step's end.
  bool has_shown_text() const { return has_shown_text_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// Marks a step as running during its lifetime.
  class Step {
   public:
    Step(StepMonitor& monitor, std::int64_t step, std::int64_t steps);
    ~Step();

   private:
    StepMonitor& monitor_;
  };

  void at(const StepPlace& place);
  void show_texts(const std::stop_token& stop);
  std::string text() const;

  const InterruptGuard& interrupt_;
  ProgressLine& progress_;
  Options options_;
  std::mutex mutex_;  // protects all members below
  std::condition_variable_any changed_;
  bool running_ = false;
  bool said_stopping_ = false;  // a text has said that a signal stops the run
  std::int64_t step_ = 0, steps_ = 0;
  std::optional<StepPlace> place_;
  Clock::time_point start_{}, next_text_{};
  std::atomic<bool> has_shown_text_ = false;
  std::jthread text_thread_;  // last member: the thread uses the other members
};

}  // namespace penstock
