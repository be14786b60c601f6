// Decides the memory that a rank of a run may take, before any rank allocates it.
#pragma once

#include <functional>

#include "penstock/train/run_control.h"

namespace penstock {

/// TrainControl::memory, or an even share of this machine's free memory if that is 0. Every rank
/// calls it before it allocates memory for the run. It returns once all ranks have measured, so
/// that no rank sees less because another rank of its machine was faster.
/// REQUIRES: `memory` is 0 on all ranks or on none
/// @param free_bytes  measures this machine's free memory.  Throws as check_none_failed().
double memory_of_rank(const TrainControl& control, const std::function<double()>& free_bytes);

}  // namespace penstock
