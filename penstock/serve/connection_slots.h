// The slots for connections of a server. A new connection waits for a slot, and gets the slot
// of the connection that has been idle longest. No sockets here.
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
  /// A new connection waits for this long if it may get a slot. It is longer than `grace`, so that
  /// waiting beside idle connections succeeds.
  std::chrono::milliseconds patience{3000};
};

class ConnectionSlot;

/// All functions may be called from any thread.
class ConnectionSlots {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ConnectionSlots(std::int64_t count, const SlotTimes& times) : times_(times), count_(count) {}
  /// Waits for a slot, first come first served, up to `patience`. If no slot is free and no
  /// connection is idle, it waits until `patience` after the last moment when a slot was left or a
  /// connection became idle. So it returns at once if all have been busy for that long.
  /// @return nothing if there is no slot, or after close()
  std::optional<ConnectionSlot> take();
  /// Changes the number of slots. Connections that hold a slot keep it.
  void resize(std::int64_t count);
  /// Ends all waiting. take() gives no slot from now on.
  void close();

 private:
  friend class ConnectionSlot;
  bool mine(std::list<int>::const_iterator newcomer) const;
  /// The time until which a connection that came at `came` waits, in the present state.
  Time end_of_waiting(Time came) const;

  const SlotTimes times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
  std::int64_t promised_ = 0;  // number of slots whose connections were told to end
  std::list<int> waiting_;
  std::multiset<Time> idle_;  // for each connection without a request: since when
  Time last_release_{};       // the last time a slot was left or a connection became idle
  bool closed_ = false;
};

/// One connection's slot. The destructor frees it. One thread at a time.
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
  /// The connection has a request. If it was told to end, the new connection goes on waiting.
  void work();

 private:
  void forget_waiting();  // under the lock

  ConnectionSlots* slots_;
  std::optional<std::multiset<Time>::const_iterator> waits_since_;  // among the idle
  bool promised_ = false;
};

}  // namespace penstock::serve
