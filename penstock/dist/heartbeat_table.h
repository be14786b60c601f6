// The state of the heartbeats: the time of each rank's last one, and lost ranks. This file sends
// and receives nothing.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace penstock::dist {

enum class RankState {
  silent,    ///< no heartbeat for some time, which may be short
  given_up,  ///< another rank gave it up after too long a silence
  gone,      ///< its connection ended without an announced end
  failed,    ///< it reported its own failure
  followed,  ///< it reported the loss of another rank and does not know which
};

struct SilentRank {
  int rank = 0;
  RankState state = RankState::silent;
  std::chrono::milliseconds since{0};  ///< time since its last heartbeat, if silent or given_up
  bool lost() const { return state != RankState::silent; }
};

/// The text by which a table and a rank exchange the value, such as "3 0 1500".
std::string text_of(const SilentRank& silent);
/// The value of such a text; nothing for any other text.
std::optional<SilentRank> silent_from(const std::string& text);

/// Not thread-safe.
class HeartbeatTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Records a heartbeat.  @param connection  the rank's connection from now on
  void heard(int rank, int connection, Time now);
  /// Records the announced end of a rank, which is not a loss.
  void ended(int rank);
  /// Records the end of a connection. Its rank, if it has one, is lost.
  void hung_up(int connection);
  /// Marks a rank as lost, of which all ranks then hear, the lost one too. The first lost rank
  /// stays, because later losses are its consequence; only a rank with state `followed` is
  /// replaced.
  void lose(const SilentRank& lost);
  /// Records that the table's process was stopped for this time and received no heartbeat.
  void skip(std::chrono::milliseconds halted);
  /// The lost rank, else the rank with the oldest heartbeat; nothing before the first heartbeat.
  std::optional<SilentRank> most_silent(Time now) const;

 private:
  struct Beat {
    Time at;
    int connection = -1;
  };
  std::map<int, Beat> ranks_;
  std::optional<SilentRank> lost_;
};

}  // namespace penstock::dist
