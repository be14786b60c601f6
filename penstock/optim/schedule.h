// Learning-rate schedules: a pure function of the step.
#pragma once

#include <cstdint>

#include "penstock/optim/optimizer_config.h"

namespace penstock {

/// Learning rate of the update `step` of n = `steps`, counted from 0; w = warmup_steps.
///   warm-up (step < w):  lr·(step+1)/(w+1)
///   cosine:    min + (lr−min)·½(1+cos(π·p)),  p = (step−w)/(n−w)
///   linear:    min + (lr−min)(1−p)
///   constant:  lr
///   steps:     lr; lr·0.316 from step 0.8·n on; lr·0.316² from step 0.9·n on
/// Source of `steps` (0.316 ≈ √0.1): Router Upcycling, section 4.1.
/// @param config  after OptimizerConfig::complete()
double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace penstock
