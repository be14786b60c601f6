// The places for connections of a server. A new connection waits for a place, and gets the place
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

struct PlaceTimes {
  /// A connection keeps its place for so long without a request, whoever else waits: clients send
  /// their next request on the connection of the last, and what they send while it ends is lost.
  std::chrono::milliseconds grace{1000};
  /// A newcomer waits for so long while there is a place in sight: more than `grace`, so that one
  /// who waits beside connections without requests gets a place.
  std::chrono::milliseconds patience{3000};
};

class Place;

/// All functions may be called from any thread.
class Places {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Places(std::int64_t count, const PlaceTimes& times) : times_(times), count_(count) {}
  /// A place, in the order of asking. Waits up to `patience`; where no place is free and no
  /// connection without a request, only until `patience` after a place was last left or a
  /// connection began to wait for a request: at once where all have been busy for that long.
  /// @return nothing where there is none, or once closed
  std::optional<Place> take();
  /// Changes the number of places. Connections that hold a place keep it.
  void resize(std::int64_t count);
  /// Ends all waiting. take() gives no place from now on.
  void close();

 private:
  friend class Place;
  bool mine(std::list<int>::const_iterator newcomer) const;
  /// The time until which a connection that came at `came` waits, in the present state.
  Time end_of_waiting(Time came) const;

  const PlaceTimes times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
  std::int64_t promised_ = 0;  // places whose connections were told to end
  std::list<int> newcomers_;
  std::multiset<Time> idle_;  // for each connection without a request: since when
  Time seen_{};               // when a place was left, or a connection began to wait
  bool closed_ = false;
};

/// One connection's place. The destructor frees it. One thread at a time.
class Place {
 public:
  using Time = Places::Time;

  explicit Place(Places& places) : places_(&places) {}
  Place(Place&& other) noexcept;
  Place& operator=(Place&&) = delete;
  ~Place();
  /// The connection is idle from `now` on.
  void wait(Time now);
  /// Whether the idle connection must end, so that a new one gets its place.
  bool gives_way(Time now);
  /// The connection has a request. If it was told to end, the new connection goes on waiting.
  void work();

 private:
  void forget_waiting();  // under the lock

  Places* places_;
  std::optional<std::multiset<Time>::const_iterator> waits_since_;  // among the idle
  bool promised_ = false;
};

}  // namespace penstock::serve
