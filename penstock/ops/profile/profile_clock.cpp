#include "penstock/ops/profile/profile_clock.h"

#include <time.h>

#include <atomic>

namespace penstock::ops {
namespace {

std::atomic<int> processor_time{0};

}  // namespace

double profile_seconds() {
  timespec now{};
  const bool processor = processor_time.load(std::memory_order_relaxed) > 0;
  clock_gettime(processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

ProcessorTime::ProcessorTime() { ++processor_time; }
ProcessorTime::~ProcessorTime() { --processor_time; }

}  // namespace penstock::ops
