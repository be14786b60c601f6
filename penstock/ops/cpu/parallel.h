// Static division of work over OpenMP threads: which thread does what depends on the sizes and the
// thread count alone, so results repeat bitwise. Not a task scheduler.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace penstock::ops::cpu {

/// Calls body(begin, end) on disjoint ranges that cover [0, n), at least `grain` items each where
/// more than one thread is used.  REQUIRES: body does not throw.
template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t grain, const Body& body) {
  if (n <= 0) return;
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), most));
  if (threads == 1) {
    body(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t count = omp_get_num_threads(), i = omp_get_thread_num();
    const std::int64_t begin = n * i / count, end = n * (i + 1) / count;
    if (begin < end) body(begin, end);
  }
}

}  // namespace penstock::ops::cpu
