// Process-wide settings of the fast paths: threads, and memory kept by the allocator.
#include <ATen/Parallel.h>
#include <omp.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include "penstock/base/threads.h"
#include "penstock/ops/dispatch.h"

namespace penstock::ops {

int set_threads(int threads) {
  if (threads <= 0) threads = physical_cores();
  at::set_num_threads(threads);
  omp_set_num_threads(threads);
  return threads;
}

void keep_freed_memory() {
#ifdef M_MMAP_MAX
  mallopt(M_MMAP_MAX, 0);         // large blocks from the heap too
  mallopt(M_TRIM_THRESHOLD, -1);  // whose end is never given back
  mallopt(M_TOP_PAD, 64 << 20);   // and which grows in large steps
#endif
}

}  // namespace penstock::ops
