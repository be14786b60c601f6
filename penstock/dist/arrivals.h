// Waiting for the other ranks at the start, and saying now and then who is missing.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "penstock/dist/group.h"
#include "penstock/dist/key_server.h"

namespace penstock::dist {

/// What ranks set in the table once they are there. The time begins with it.
class Arrivals {
 public:
  Arrivals(KeyClient& table, int size, const GroupOptions& options);

  static std::string key_of(int rank);
  /// What that rank set, or nothing where GroupOptions::start_timeout is over.
  std::optional<std::string> wait(int rank);

 private:
  using Time = std::chrono::steady_clock::time_point;
  void tell() const;

  KeyClient& table_;
  int size_;
  const GroupOptions& options_;
  Time end_, notice_;
};

}  // namespace penstock::dist
