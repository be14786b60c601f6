// Process-wide settings of the fast kernels: threads, and memory kept by the allocator.
#include <ATen/Parallel.h>
#include <omp.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/threads.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/large_pages.h"

namespace penstock::ops {

int set_threads(int threads) {
  const int cores = physical_cores();
  PENSTOCK_CHECK(threads <= std::max(16, 8 * cores), threads,
                 " threads were asked for (run.threads), but the process may use ", cores,
                 cores == 1 ? " core" : " cores", "; 0 takes that number");
  if (threads <= 0) threads = cores;
  at::set_num_threads(threads);
  omp_set_num_threads(threads);
  return threads;
}

void keep_freed_memory() {
#ifdef M_MMAP_MAX
  mallopt(M_MMAP_MAX, 0);         // large blocks come from the heap too
  mallopt(M_TRIM_THRESHOLD, -1);  // the heap's end is never given back
  mallopt(M_TOP_PAD, 64 << 20);   // the heap grows in large steps
  mallopt(M_ARENA_MAX, 1);        // threads share one heap and reuse each other's freed blocks
  grow_heap_of_large_pages();
#endif
}

}  // namespace penstock::ops
