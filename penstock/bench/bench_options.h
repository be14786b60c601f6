// What benches of a recipe's step and of its layers alone are told alike.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "penstock/base/fields.h"
#include "penstock/ops/profile/profile_clock.h"

namespace penstock::bench {

/// What times are of.
enum class BenchClock { wall, processor };
constexpr std::array<std::string_view, 2> words(BenchClock) { return {"wall", "processor"}; }

struct BenchOptions {
  std::int64_t steps = 10;      ///< timed
  std::int64_t warm_up = 3;     ///< before them
  double active_experts = 0;    ///< mean to hold ReLU routing at; 0: as the router routes
  double memory_bandwidth = 0;  ///< known already; 0: measured
  bool cpu_time = false;        ///< processor time in place of wall time; one thread only
  bool stock = false;  ///< also time stock tensor operations outside the operators, at a small cost

  BenchClock clock() const { return cpu_time ? BenchClock::processor : BenchClock::wall; }
  /// Has profiles read that clock while it lives. Throws Error where it is of one thread alone.
  std::optional<ops::ProcessorTime> read_clock(int threads) const;
  /// Bytes per second of all threads.
  double bandwidth(int threads) const;
};

}  // namespace penstock::bench
