// How rank 0 leads a run: before it does something that all ranks take part in it says so, and the
// others wait for the next order. So only rank 0 decides what comes next: which step, when to
// measure and to save, and when to stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include "penstock/dist/group.h"
#include "penstock/train/run_control.h"
#include "penstock/train/step_place.h"

namespace penstock {

enum class Order : std::int64_t {
  step,
  gather,
  gather_whole,
  meet,   // in a directory: whether all see it
  room,   // for the copies of their pieces
  save,   // their pieces of a checkpoint, into the directory that follows
  saved,  // which waits for their pieces
  restore,
  wait,
  finished,
  interrupted,
  failed
};

/// Rank 0's side. With one process, and on other ranks, it does nothing.
class Leader {
 public:
  explicit Leader(dist::ProcessGroup group) : group_(std::move(group)) {}
  /// Without a given end: the run failed.
  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  /// From here on the others wait for orders.
  void begin() { begun_ = true; }
  void give(Order order);
  /// Gives it, and does this rank's part, in which the others wait for it. What ends that other
  /// than by agreement ends the run's group: a failure of this rank alone is thrown as FailedRank.
  template <class Part>
  auto together(Order order, const Part& part);
  /// With what the order is about, which next_text() gets on the other ranks.
  template <class Part>
  auto together(Order order, const std::string& text, const Part& part);
  /// Lets the others go on waiting while rank 0 works alone, once in a while.
  void keep_waiting();
  /// Lets the others go.
  void end(RunOutcome outcome);

 private:
  using Clock = std::chrono::steady_clock;
  dist::ProcessGroup group_;
  bool begun_ = false, ended_ = false;
  Clock::time_point last_ = Clock::now();
};

template <class Part>
auto Leader::together(Order order, const std::string& text, const Part& part) {
  return together(order, [&] {
    group_.broadcast_bytes(text);
    return part();
  });
}

template <class Part>
auto Leader::together(Order order, const Part& part) {
  give(order);
  try {
    return part();
  } catch (const StepStopped&) {  // after which an order comes
    throw;
  } catch (const dist::LostRank&) {
    ended_ = true;
    throw;
  } catch (const std::exception& error) {
    ended_ =
        true;  // the others have thrown, too, or wait in the middle, where no order reaches them
    if (group_.size() == 1 || group_.failed_together()) throw;
    throw dist::FailedRank(group_.name(), error);
  }
}

/// The other ranks' side: the next order, and what it is about.
Order next_order(const dist::ProcessGroup& group);
std::string next_text(const dist::ProcessGroup& group);

}  // namespace penstock
