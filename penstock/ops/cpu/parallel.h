// Division of work over OpenMP threads: in ranges, where which thread does what depends on the
// sizes and the thread count alone, or in tasks of unequal size that threads take as they are free.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "penstock/ops/cpu/flush_denormals.h"

namespace penstock::ops::cpu {

/// Calls body(begin, end) on disjoint ranges that cover [0, n), at least `grain` items each where
/// more than one thread is used; denormal numbers are zero there.  REQUIRES: body does not throw.
template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t grain, const Body& body) {
  if (n <= 0) return;
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), most));
  if (threads == 1) {
    const FlushDenormals flush;
    body(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const FlushDenormals flush;
    const std::int64_t count = omp_get_num_threads(), i = omp_get_thread_num();
    const std::int64_t begin = n * i / count, end = n * (i + 1) / count;
    if (begin < end) body(begin, end);
  }
}

/// Calls body(task, thread) for tasks [0, n), thread in [0, omp_get_max_threads()); denormal
/// numbers are zero there. Results repeat bitwise where no task reads what another writes.
/// REQUIRES: body does not throw.
template <class Body>
void parallel_tasks(std::int64_t n, const Body& body) {
#pragma omp parallel
  {
    const FlushDenormals flush;
    const int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < n; ++i) body(i, thread);
  }
}

/// How many of `pieces` a task takes where neighbours are read one after another: as many as leave
/// each thread eight tasks, so that the next rows are fetched ahead, and at most `most`.
inline std::int64_t pieces_per_task(std::int64_t pieces, std::int64_t most) {
  return std::clamp<std::int64_t>(pieces / (8 * omp_get_max_threads()), 1, most);
}

}  // namespace penstock::ops::cpu
