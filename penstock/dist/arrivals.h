// Waiting for the other ranks at the start, and saying now and then who is missing.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "penstock/dist/group_options.h"
#include "penstock/dist/group_table.h"

namespace penstock::dist {

/// When to say that one waits, and how long the start may still take. The time begins with it.
class Notices {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit Notices(const GroupOptions& options);

  /// When the time is over.
  Time end() const { return end_; }
  /// When the next notice is due, or the end.
  Time next() const;
  /// Says, where a notice is due, what missing() returns, and how long is left; nothing if that is
  /// empty.
  void tell(const std::function<std::string()>& missing);

 private:
  const GroupOptions& options_;
  Time end_, due_;
};

/// What ranks set in the table once they are there.
class Arrivals {
 public:
  /// @param size  of all
  Arrivals(const GroupTable& table, int size, Notices notices, bool tells);

  static std::string key_of(int rank);
  /// What that rank set, or nothing where the time is over. Throws LostRank where one that was
  /// there is lost.
  std::optional<std::string> wait(int rank);

 private:
  std::string missing() const;

  const GroupTable& table_;
  int size_;
  Notices notices_;
  bool tells_;
};

}  // namespace penstock::dist
