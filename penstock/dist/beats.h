// What the table of ranks knows of who is still there: when each rank was last heard of. Nothing is
// sent or received here.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace penstock::dist {

/// A rank that says nothing any more.
struct SilentRank {
  int rank = 0;
  /// Since it was last heard of; nothing where its connection ended without its saying so.
  std::optional<std::chrono::milliseconds> since = std::nullopt;
};

/// Not thread-safe.
class Beats {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// @param connection  by which the rank says so, from now on
  void heard(int rank, int connection, Time now);
  /// The rank says that it ends.
  void ended(int rank);
  /// The connection is gone. The rank of it, if any, stays known as gone.
  void hung_up(int connection);
  /// The process that keeps the table was stopped for so long and could hear nobody.
  void skip(std::chrono::milliseconds halted);
  /// The rank that is gone, or else the one heard of least recently; nothing while none was heard.
  std::optional<SilentRank> most_silent(Time now) const;

 private:
  struct Beat {
    Time at;
    int connection = -1;  // -1: gone
  };
  std::map<int, Beat> ranks_;
};

}  // namespace penstock::dist
