// A stopwatch on the profiles' clock, a counter of preemptions, and the median.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/profile/profile_clock.h"

namespace penstock::bench {

class Stopwatch {
 public:
  /// Seconds since construction or since the last lap.
  double lap() {
    const double now = ops::profile_seconds(), elapsed = now - last_;
    last_ = now;
    return elapsed;
  }

 private:
  double last_ = ops::profile_seconds();
};

/// How often the system has preempted a thread of this process so far. If the number grows by tens
/// a second, other programs compete for the processors and times are unreliable.
inline std::int64_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

/// The middle value, or the mean of the two middle values. REQUIRES: values is not empty.
inline double median(std::vector<double> values) {
  PENSTOCK_ASSERT(!values.empty(), "a median of nothing");
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace penstock::bench
