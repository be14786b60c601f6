#include "penstock/bench/bench_options.h"

#include "penstock/base/error.h"
#include "penstock/ops/machine/machine.h"

namespace penstock::bench {

std::optional<ops::ProcessorTime> BenchOptions::read_clock(int threads) const {
  if (!cpu_time) return std::nullopt;
  PENSTOCK_CHECK(threads == 1, "options.cpu_time measures one thread, not ", threads,
                 "; set run.threads = 1");
  return std::optional<ops::ProcessorTime>(std::in_place);
}

double BenchOptions::bandwidth(int threads) const {
  return memory_bandwidth > 0 ? memory_bandwidth : ops::measure_memory_bandwidth(threads);
}

}  // namespace penstock::bench
