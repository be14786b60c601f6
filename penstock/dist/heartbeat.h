// A thread that tells the table of ranks, once a second, that this rank is there, and hears which
// one is lost. Operations of a group notice a connection that ends, mostly; a rank that is stopped,
// or hangs outside an operation, keeps its connections, and only its silence tells.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "penstock/dist/key_server.h"

namespace penstock::dist {

/// A lost rank.
struct Lost {
  std::optional<int> rank;  ///< nothing: the rank that keeps the table
  RankState how = RankState::gone;
  std::chrono::seconds silent{0};  ///< the length of the silence, if it was given up
};

struct HeartbeatOptions {
  std::chrono::milliseconds silence;  ///< after which a rank counts as lost
  /// Whether the table's end or silence counts as the loss of the rank that keeps it.
  bool needs_table = true;
  /// Called by the thread once a rank is lost, and then every second: exchanges under way must end.
  std::function<void()> lost;
};

/// Starts at construction. A rank whose heartbeat ends without leave() has failed: it reports that,
/// and the others lose it. Cost: a message a second.
class Heartbeat {
 public:
  /// @param table  connected for this alone, with a patience of `silence` where it is needed
  Heartbeat(std::shared_ptr<KeyClient> table, int rank, HeartbeatOptions options);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Says goodbye, so that others do not lose this rank. Ends the thread.
  void leave();
  /// Ends the thread. Without leave() before, this rank has failed, unless it lost another.
  void stop();
  /// Tells that an operation lost some other rank.
  void lost_another() { lost_another_ = true; }
  /// The first that was lost, which may be this rank: the others have given it up. Thread-safe.
  std::optional<Lost> lost() const;

 private:
  void run();
  void listen_for_a_loss();
  /// Waits for the time of the next beat. @return whether there is one
  bool next();
  void judge(const SilentRank& silent);
  void lose(const Lost& lost);
  /// Until the heartbeat is stopped.
  void end_exchanges();
  void say_end() noexcept;

  std::shared_ptr<KeyClient> table_;
  int rank_;
  HeartbeatOptions options_;
  std::chrono::milliseconds period_;
  int wake_;
  std::atomic<bool> done_ = false, lost_another_ = false;
  mutable std::mutex mutex_;
  std::optional<Lost> lost_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace penstock::dist
