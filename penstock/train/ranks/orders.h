// The orders with which rank 0 leads a run. Rank 0 sends an order before each action of all ranks;
// the other ranks wait for the next order. So only rank 0 decides the next action: a step, a
// measurement, a checkpoint or the end.
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
  meet,   // check whether all ranks see a directory
  room,   // get memory for copies of checkpoint pieces
  save,   // save checkpoint pieces into the directory in the text
  saved,  // wait for the pieces and report them
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
  /// If end() was not called, tells the other ranks that the run failed.
  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  /// Called once the other ranks wait for orders.
  void begin() { begun_ = true; }
  /// Sends an order to the other ranks.
  void give(Order order);
  /// Gives an order and returns part(), this rank's part of the work. The other ranks wait for it
  /// in their parts. If this rank alone fails, throws FailedRank, which ends the run's group.
  template <class Part>
  auto together(Order order, const Part& part);
  /// The same with a text for the order. The other ranks get the text from next_text().
  template <class Part>
  auto together(Order order, const std::string& text, const Part& part);
  /// Sends Order::wait if the last order is more than a second old. Rank 0 calls it while it works
  /// alone, so that the other ranks keep waiting.
  void keep_waiting();
  /// Sends the end of the run to the other ranks.
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
  } catch (const StepStopped&) {  // all ranks agree on it; another order follows
    throw;
  } catch (const dist::LostRank&) {
    ended_ = true;
    throw;
  } catch (const std::exception& error) {
    ended_ =
        true;  // the other ranks have thrown too, or wait inside the part, where they get no order
    if (group_.size() == 1 || group_.failed_together()) throw;
    throw dist::FailedRank(group_.name(), error);
  }
}

/// The other ranks' side: the next order, and the text of an order.
Order next_order(const dist::ProcessGroup& group);
std::string next_text(const dist::ProcessGroup& group);

/// Whether all ranks have done their work of an order. Every rank calls it again until it returns
/// true, and meanwhile at least several times a second, so that no rank is late in an operation.
/// @param mine  whether this rank has done its work
bool all_done(const dist::ProcessGroup& group, bool mine);

}  // namespace penstock
