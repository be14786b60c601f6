#include "penstock/train/run_memory.h"

#include "penstock/train/ranks/agreement.h"

namespace penstock {

double memory_of_rank(const TrainControl& control, const std::function<double()>& free_bytes) {
  if (control.memory > 0) return control.memory;
  return on_all_ranks(control.group, free_bytes) / control.processes_here;
}

}  // namespace penstock
