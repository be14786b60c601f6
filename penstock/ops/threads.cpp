#include <ATen/Parallel.h>
#include <omp.h>

#include "penstock/base/threads.h"
#include "penstock/ops/dispatch.h"

namespace penstock::ops {

int set_threads(int threads) {
  if (threads <= 0) threads = physical_cores();
  at::set_num_threads(threads);
  omp_set_num_threads(threads);
  return threads;
}

}  // namespace penstock::ops
