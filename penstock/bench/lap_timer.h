// A timer of laps on the profiles' clock, and a counter of preemptions.
#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "penstock/ops/profile/profile_clock.h"

namespace penstock::bench {

class LapTimer {
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

}  // namespace penstock::bench
