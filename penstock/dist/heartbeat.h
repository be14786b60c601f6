// A thread that reports to the table of ranks, once a second, that this rank is alive, and learns
// which rank is lost. A group's operations usually notice a connection that ends. But a rank that
// is stopped, or that hangs outside an operation, keeps its connections; only its silence shows
// that it is lost.
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
  std::optional<int> rank;  ///< nothing: the rank that hosts the table
  RankState how = RankState::gone;
  std::chrono::seconds silent{0};  ///< the length of the silence, if the rank was given up
};

struct HeartbeatOptions {
  std::chrono::milliseconds silence;  ///< a rank that is silent for longer counts as lost
  /// Whether the table's end or silence counts as the loss of the rank that hosts it.
  bool needs_table = true;
  /// Called by the thread when a rank is lost, and then every second. It must end the exchanges in
  /// progress.
  std::function<void()> lost;
};

/// Starts at construction. If the heartbeat ends without leave(), it reports that the rank has
/// failed, and the others lose it. Cost: a message per second.
class Heartbeat {
 public:
  /// @param table  a connection that only the heartbeat uses; its patience is `silence` if
  /// needs_table
  Heartbeat(std::shared_ptr<KeyClient> table, int rank, HeartbeatOptions options);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Announces this rank's normal end, so that others do not lose it. Ends the thread.
  void leave();
  /// Ends the thread. Without leave() before it, this rank counts as failed, unless it lost another
  /// rank.
  void stop();
  /// Records that an operation lost some other rank.
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
