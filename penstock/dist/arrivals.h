// Waits for the other ranks at the start, and reports missing ranks from time to time.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "penstock/dist/group_options.h"
#include "penstock/dist/group_table.h"

namespace penstock::dist {

/// The times of notices during the wait, and its end. Construction starts the clock.
class Notices {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit Notices(const GroupOptions& options);

  /// The time at which the wait ends.
  Time end() const { return end_; }
  /// The time of the next notice, or the end.
  Time next() const;
  /// If a notice is due, calls GroupOptions::waiting with the text of missing() and the time left,
  /// unless the text is empty.
  void tell(const std::function<std::string()>& missing);

 private:
  const GroupOptions& options_;
  Time end_, due_;
};

/// The keys that ranks set in the table when they arrive.
class Arrivals {
 public:
  /// @param size  the number of ranks
  Arrivals(const GroupTable& table, int size, Notices notices, bool tells);

  static std::string key_of(int rank);
  /// Waits for the rank's key and returns its value, or nothing at the end of the wait. Throws
  /// LostRank if a rank that had arrived is lost.
  std::optional<std::string> wait(int rank);

 private:
  std::string missing() const;

  const GroupTable& table_;
  int size_;
  Notices notices_;
  bool tells_;
};

}  // namespace penstock::dist
