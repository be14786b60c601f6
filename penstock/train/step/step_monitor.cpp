#include "penstock/train/step/step_monitor.h"

#include <fmt/format.h>

#include <algorithm>

#include "penstock/base/stopwatch.h"

namespace penstock {

StepMonitor::Step::Step(StepMonitor& monitor, std::int64_t step, std::int64_t steps)
    : monitor_(monitor) {
  const std::scoped_lock lock(monitor.mutex_);
  monitor.running_ = true;
  monitor.has_shown_text_ = false;
  monitor.step_ = step;
  monitor.steps_ = steps;
  monitor.place_.reset();
  monitor.start_ = Clock::now();
  monitor.next_text_ =
      monitor.start_ + std::chrono::duration_cast<Clock::duration>(monitor.options_.quiet);
}

StepMonitor::Step::~Step() {
  const std::scoped_lock lock(monitor_.mutex_);
  monitor_.running_ = false;
}

StepMonitor::StepMonitor(const InterruptGuard& interrupt, ProgressLine& progress, Options options)
    : interrupt_(interrupt), progress_(progress), options_(std::move(options)) {
  if (!progress.silent())
    text_thread_ = std::jthread([this](const std::stop_token& stop) { show_texts(stop); });
}

StepMonitor::~StepMonitor() = default;

void StepMonitor::at(const StepPlace& place) {
  if (interrupt_.signal() != 0) throw StepStopped(interrupt_.signal());
  const std::scoped_lock lock(mutex_);
  place_ = place;
}

std::string StepMonitor::text() const {
  const double seconds = seconds_since(start_);
  return fmt::format("step {}/{}  {}  for {}", step_, steps_,
                     place_ ? place_text(*place_, options_.part) : "begun", duration_text(seconds));
}

void StepMonitor::show_texts(const std::stop_token& stop) {
  // Polls. Steps do not wake the thread, because a wake-up would slow steps of milliseconds.
  using Seconds = std::chrono::duration<double>;
  const Seconds look = std::clamp(options_.quiet, Seconds(0.01), Seconds(1));
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, look, [] { return false; });
    const bool stopping = interrupt_.signal() != 0 && !said_stopping_;
    if (!running_ || (!stopping && Clock::now() < next_text_)) continue;
    said_stopping_ = said_stopping_ || stopping;
    progress_.show((said_stopping_ ? "stopping in " : "") + text());
    has_shown_text_ = true;
    next_text_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.pause);
  }
}

}  // namespace penstock
