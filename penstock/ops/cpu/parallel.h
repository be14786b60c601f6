// Division of work over OpenMP threads, in ranges or in tasks. The sizes and the thread count alone
// decide which thread gets which range. Tasks may have unequal sizes, because a free thread takes
// the next task.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "penstock/ops/cpu/flush_denormals.h"
#include "penstock/ops/cpu/work_shares.h"

namespace penstock::ops::cpu {

/// ⌈a / b⌉.  REQUIRES: a ≥ 0, b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls body(begin, end) on disjoint ranges that cover [0, n). If more than one thread is used, a
/// range has at least `grain` items. Denormal numbers are zero in body.
/// REQUIRES: body does not throw.
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

/// Calls body(task, thread) for tasks [0, n), thread in [0, omp_get_max_threads()). Denormal
/// numbers are zero in body. Results repeat bitwise if no task reads memory that another task
/// writes. REQUIRES: body does not throw.
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

/// Calls body(task) for tasks [0, n). A thread runs neighbouring tasks (work_shares.h). Denormal
/// numbers are zero in body.
/// REQUIRES: body does not throw.
template <class Body>
void parallel_neighbours(std::int64_t n, const Body& body) {
  const int threads = static_cast<int>(std::clamp<std::int64_t>(n, 1, omp_get_max_threads()));
  if (threads == 1) {
    const FlushDenormals flush;
    for (std::int64_t task = 0; task < n; ++task) body(task);
    return;
  }
  WorkShares shares(n, threads);
#pragma omp parallel num_threads(threads)
  {
    const FlushDenormals flush;
    while (const auto task = shares.next(omp_get_thread_num())) body(*task);
  }
}

}  // namespace penstock::ops::cpu
