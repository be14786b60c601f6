// The slots for the connections of a server. A new connection waits for a slot, and may get that of
// the connection that has been idle longest. This file has no sockets.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <set>

namespace penstock::serve {

struct SlotTimes {
  /// An idle connection keeps its slot for this long, even if others wait. Clients send their next
  /// request on the same connection, and a request sent while the connection ends is lost.
  std::chrono::milliseconds grace{1000};
  /// A new connection waits for up to this time. It is longer than `grace`, so that waiting
  /// succeeds if a connection is idle.
  std::chrono::milliseconds patience{3000};
};

class ConnectionSlot;

/// All functions may be called from any thread.
class ConnectionSlots {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ConnectionSlots(std::int64_t count, const SlotTimes& times) : times_(times), count_(count) {}
  /// Waits for a slot, first come first served, up to `patience`. If no slot is free and no
  /// connection is idle, `patience` counts from the last time when a slot was freed or a connection
  /// became idle. So it returns at once if all connections have been busy for that long.
  /// @return nothing if there is no slot, or after close()
  std::optional<ConnectionSlot> take();
  /// Changes the number of slots. Connections that hold a slot keep it.
  void resize(std::int64_t count);
  /// Ends all waits. From then on take() gives no slot.
  void close();

 private:
  friend class ConnectionSlot;
  bool mine(std::list<int>::const_iterator newcomer) const;
  /// The time until which a connection that arrived at `came` waits, in the present state.
  Time end_of_waiting(Time came) const;

  const SlotTimes times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
  std::int64_t promised_ = 0;  // slots whose connections were told to end
  std::list<int> waiting_;
  std::multiset<Time> idle_;  // for each idle connection, the time since when it is idle
  Time last_release_{};       // the last time a slot was freed or a connection became idle
  bool closed_ = false;
};

/// One connection's slot. The destructor frees it. Not thread-safe.
class ConnectionSlot {
 public:
  using Time = ConnectionSlots::Time;

  explicit ConnectionSlot(ConnectionSlots& slots) : slots_(&slots) {}
  ConnectionSlot(ConnectionSlot&& other) noexcept;
  ConnectionSlot& operator=(ConnectionSlot&&) = delete;
  ~ConnectionSlot();
  /// The connection has been idle since then.
  void wait(Time since);
  /// Whether the idle connection must end, so that a new one gets its slot.
  bool gives_way(Time now);
  /// The connection has a request. If it was told to end, the new connection continues to wait.
  void work();

 private:
  void forget_waiting();  // under the lock

  ConnectionSlots* slots_;
  std::optional<std::multiset<Time>::const_iterator> waits_since_;  // its entry in idle_
  bool promised_ = false;
};

}  // namespace penstock::serve
