// The heartbeats that the table of ranks knows: the time of each rank's last one, and lost ranks.
// This file sends and receives nothing.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace penstock::dist {

enum class RankState {
  silent,    ///< without a heartbeat for some time, which may be short
  given_up,  ///< another rank gave it up after too long a silence
  gone,      ///< its connection ended without a goodbye
  failed,    ///< by its own word
  followed,  ///< it reported the loss of another rank and does not know which
};

struct SilentRank {
  int rank = 0;
  RankState state = RankState::silent;
  std::chrono::milliseconds since{0};  ///< time since its last heartbeat, if silent or given_up
  bool lost() const { return state != RankState::silent; }
};

/// The text that a table and a rank exchange, such as "3 0 1500".
std::string text_of(const SilentRank& silent);
/// Returns nothing for any other text.
std::optional<SilentRank> silent_from(const std::string& text);

/// Not thread-safe.
class HeartbeatTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// @param connection  the rank's connection from now on
  void heard(int rank, int connection, Time now);
  /// The rank says goodbye; its end is no loss.
  void ended(int rank);
  /// The connection ended; its rank, if any, is lost.
  void hung_up(int connection);
  /// Marks a rank as lost. All ranks hear of it, the lost one too. The first lost rank stays,
  /// because later ones are lost as its consequence; only a rank that `followed` is replaced.
  void lose(const SilentRank& lost);
  /// Tells that the table's process was stopped for this long and received no heartbeat.
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
