// Options that the benches of a recipe's step and of its layers share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "penstock/base/fields.h"
#include "penstock/ops/profile/profile_clock.h"

namespace penstock::bench {

/// The clock of the times.
enum class BenchClock { wall, processor };
constexpr std::array<std::string_view, 2> words(BenchClock) { return {"wall", "processor"}; }

struct BenchOptions {
  std::int64_t steps = 10;      ///< timed steps
  std::int64_t warm_up = 3;     ///< untimed steps before the timed ones
  double active_experts = 0;    ///< mean to set for ReLU routing; 0: the router's own
  double memory_bandwidth = 0;  ///< bytes per second; 0: it is measured
  bool cpu_time = false;        ///< processor time in place of wall time; one thread only
  bool stock = false;  ///< also time stock tensor operations outside the operators, at a small cost

  BenchClock clock() const { return cpu_time ? BenchClock::processor : BenchClock::wall; }
  /// Makes profiles read clock() during the result's life. Throws Error if clock() is `processor`
  /// and there is more than one thread.
  std::optional<ops::ProcessorTime> read_clock(int threads) const;
  /// The memory bandwidth of all threads, in bytes per second.
  double bandwidth(int threads) const;
};

}  // namespace penstock::bench
