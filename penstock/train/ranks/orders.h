// How rank 0 leads a run: before it does something that all ranks take part in it says so, and the
// others wait for the next order. So only rank 0 decides what comes next: which step, when to
// measure and to save, and when to stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "penstock/dist/group.h"
#include "penstock/train/run_control.h"

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
  /// Where no end was given: the run failed.
  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  /// From here on the others wait for orders.
  void begin() { begun_ = true; }
  void give(Order order);
  /// With what it is about, which next_text() gets on the other ranks.
  void give(Order order, const std::string& text);
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

/// The other ranks' side: the next order, and what it is about.
Order next_order(const dist::ProcessGroup& group);
std::string next_text(const dist::ProcessGroup& group);

}  // namespace penstock
