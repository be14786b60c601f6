// Learning-rate schedules: a pure function of the step.
#pragma once

#include <cstdint>

#include "penstock/optim/optimizer_config.h"

namespace penstock {

/// Learning rate of the step-th update of n = `steps`, counted from 0:
///   warm-up  lr·(step+1)/(warmup+1);  then  min + (lr−min)·½(1+cos(π·p)),  p = (step−w)/(n−w)
/// (linear: min + (lr−min)(1−p); constant: lr; steps: lr·0.316^(number of the shares 0.8 and 0.9 of
/// n that step has reached), which is two times √0.1, Router Upcycling's, section 4.1).
/// @param config  complete
double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace penstock
