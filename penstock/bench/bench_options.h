// What benches of a recipe's step and of its layers alone are told alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/ops/profile/profile_clock.h"

namespace penstock::bench {

struct BenchOptions {
  std::int64_t steps = 10;      ///< timed
  std::int64_t warm_up = 3;     ///< before them
  double active_experts = 0;    ///< mean to hold ReLU routing at; 0: as the router routes
  double memory_bandwidth = 0;  ///< known already; 0: measured
  bool cpu_time = false;        ///< processor time in place of wall time; one thread only
  bool stock = false;  ///< also time stock tensor operations outside the operators, at a small cost

  /// What times are of: "processor" or "wall".
  std::string clock() const { return cpu_time ? "processor" : "wall"; }
  /// Has profiles read that clock while it lives. Throws Error where it is of one thread alone.
  std::optional<ops::ProcessorTime> read_clock(int threads) const;
  /// Bytes per second of all threads.
  double bandwidth(int threads) const;
};

}  // namespace penstock::bench
