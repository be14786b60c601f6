// A thread that reports to the table of ranks, once a second, that this rank is alive, and learns
// which rank is lost. A group's operations usually notice a connection that ends. A rank that is
// stopped, or that hangs outside an operation, keeps its connections: only its silence shows that
// it is lost.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "penstock/dist/key_server.h"
#include "penstock/dist/wake_event.h"

namespace penstock::dist {

/// A lost rank.
struct RankLoss {
  std::optional<int> rank;  ///< nothing: the rank that keeps the table
  RankState how = RankState::gone;
  std::chrono::seconds silent{0};  ///< the length of the silence, if it was given up
};

struct HeartbeatOptions {
  std::chrono::milliseconds silence;  ///< after which a rank counts as lost
  /// Whether the table's end or silence counts as the loss of the rank that keeps it.
  bool needs_table = true;
  /// Called by the thread when a rank is lost, and then every second. It must end the exchanges in
  /// progress.
  std::function<void()> lost;
};

/// Starts at construction. A rank whose heartbeat ends without leave() has failed: it reports that,
/// and the others lose it. Cost: a message a second.
class Heartbeat {
 public:
  /// @param table  a connection for the heartbeat alone; its patience is `silence` if needs_table
  Heartbeat(std::shared_ptr<KeyClient> table, int rank, HeartbeatOptions options);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Says goodbye, so that others do not lose this rank. Ends the thread.
  void leave();
  /// Ends the thread. Without a leave() before, this rank counts as failed, unless it lost another
  /// rank.
  void stop();
  /// Tells that an operation lost some other rank.
  void lost_another() { lost_another_ = true; }
  /// The first lost rank. It may be this rank, if the others gave it up. Thread-safe.
  std::optional<RankLoss> lost() const;

 private:
  void run();
  void listen_for_a_loss();
  /// Waits until the next beat is due.  @return false if there is no further beat
  bool next();
  void judge(const SilentRank& silent);
  void lose(const RankLoss& lost);
  /// Calls options_.lost repeatedly until the heartbeat is stopped.
  void end_exchanges();
  void say_end() noexcept;

  std::shared_ptr<KeyClient> table_;
  int rank_;
  HeartbeatOptions options_;
  std::chrono::milliseconds period_;
  WakeEvent wake_;
  std::atomic<bool> done_ = false, lost_another_ = false;
  mutable std::mutex mutex_;
  std::optional<RankLoss> lost_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace penstock::dist
