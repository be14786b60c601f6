#include "penstock/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace penstock {

double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps) {
  const auto s = static_cast<double>(step), warmup = static_cast<double>(config.warmup_steps),
             total = static_cast<double>(steps);
  if (s < warmup) return config.lr * (s + 1) / (warmup + 1);
  const double progress = std::clamp((s - warmup) / std::max(1.0, total - warmup), 0.0, 1.0);
  const double above = config.lr - config.min_lr;
  constexpr double factor = 0.316;
  switch (config.lr_schedule) {
    case LrSchedule::constant:
      return config.lr;
    case LrSchedule::steps:
      return config.lr * (s >= 0.9 * total ? factor * factor : s >= 0.8 * total ? factor : 1.0);
    case LrSchedule::linear:
      return config.min_lr + above * (1 - progress);
    case LrSchedule::cosine:
      break;
  }
  return config.min_lr + above * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace penstock
