// What the table of ranks knows of who is still there: when each rank was last heard of, and who is
// lost. Nothing is sent or received here.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace penstock::dist {

enum class RankState {
  silent,    ///< not heard of for a time, which may be short
  given_up,  ///< by another rank, since it was silent for too long
  gone,      ///< its connection ended without its saying so
  failed,    ///< by its own word
  followed,  ///< by its own word it lost another rank, and cannot say which
};

struct SilentRank {
  int rank = 0;
  RankState state = RankState::silent;
  std::chrono::milliseconds since{0};  ///< it was last heard of, where it is silent or given up
  bool lost() const { return state != RankState::silent; }
};

/// "3 0 1500", for the connection between a table and a rank.
std::string text_of(const SilentRank& silent);
/// Nothing where it is no such text.
std::optional<SilentRank> silent_from(const std::string& text);

/// Not thread-safe.
class Beats {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// @param connection  by which the rank says so, from now on
  void heard(int rank, int connection, Time now);
  /// The rank says that it ends, and is not missed.
  void ended(int rank);
  /// The connection is gone, and the rank of it, if any, is lost.
  void hung_up(int connection);
  /// From then on every rank hears of it, the lost one too. The first that is lost stays so: others
  /// are lost since they lost that one. Only one that `followed` gives way to another.
  void lose(const SilentRank& lost);
  /// The process that keeps the table was stopped for so long and could hear nobody.
  void skip(std::chrono::milliseconds halted);
  /// The lost one, or else the one heard of least recently; nothing while none was heard.
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
