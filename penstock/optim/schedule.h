// Learning-rate schedules: a pure function of the step.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

struct ScheduleConfig {
  std::string shape = "cosine";  ///< cosine | constant | linear | steps
  double lr = 5e-4, min_lr = 5e-5;
  std::int64_t warmup_steps = 0, total_steps = 1;
};

/// Learning rate of the step-th update, counted from 0:
///   warm-up  lr·(step+1)/(warmup+1);  then  min + (lr−min)·½(1+cos(π·p)),  p = (step−w)/(n−w)
/// (linear: min + (lr−min)(1−p); constant: lr; steps: lr·0.316^(number of the shares 0.8 and 0.9 of
/// n that step has reached), which is two times √0.1, Router Upcycling's, section 4.1).
double learning_rate(const ScheduleConfig& config, std::int64_t step);

}  // namespace penstock
