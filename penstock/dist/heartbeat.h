// A thread that tells the table of ranks, once a second, that this rank is there, and hears which
// one is not. Operations of a group notice a connection that ends; a rank that is stopped, or hangs
// outside an operation, keeps its connections, and only its silence tells.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "penstock/dist/key_server.h"

namespace penstock::dist {

/// A rank that does not answer any more.
struct Lost {
  std::optional<int> rank;  ///< nothing: whoever keeps the table
  /// How long it has been silent; nothing where its connection ended without its saying so.
  std::optional<std::chrono::seconds> silent;
};

struct HeartbeatOptions {
  std::chrono::milliseconds silence;  ///< after which a rank counts as lost
  /// Whether the table's end or its silence counts as the loss of whoever keeps it.
  bool needs_table = true;
  /// Called by the thread once a rank is lost, and then every second: exchanges under way must end.
  std::function<void()> lost;
};

/// Begins with its construction and ends, orderly, with its destruction: a rank that ends so is not
/// missed by others. Costs a message a second.
class Heartbeat {
 public:
  /// @param table  connected for this alone, with a patience of `silence` where it is needed
  Heartbeat(std::shared_ptr<KeyClient> table, int rank, HeartbeatOptions options);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// The first that was lost. Thread-safe.
  std::optional<Lost> lost() const;

 private:
  void run();
  /// Waits for the time of the next beat. @return whether there is one
  bool next();
  void beat();
  void judge(const SilentRank& silent);
  void lose(const Lost& lost);
  void say_end() noexcept;

  std::shared_ptr<KeyClient> table_;
  int rank_;
  HeartbeatOptions options_;
  std::chrono::milliseconds period_;
  int wake_;
  mutable std::mutex mutex_;
  std::optional<Lost> lost_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace penstock::dist
