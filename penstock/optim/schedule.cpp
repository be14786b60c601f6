#include "penstock/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "penstock/base/error.h"

namespace penstock {

double learning_rate(const ScheduleConfig& config, std::int64_t step) {
  const auto s = static_cast<double>(step), warmup = static_cast<double>(config.warmup_steps),
             total = static_cast<double>(config.total_steps);
  if (s < warmup) return config.lr * (s + 1) / (warmup + 1);
  if (config.shape == "constant") return config.lr;
  if (config.shape == "steps") {
    constexpr double factor = 0.316;
    return config.lr * (s >= 0.9 * total ? factor * factor : s >= 0.8 * total ? factor : 1.0);
  }
  const double progress = std::clamp((s - warmup) / std::max(1.0, total - warmup), 0.0, 1.0);
  if (config.shape == "linear") return config.min_lr + (config.lr - config.min_lr) * (1 - progress);
  PENSTOCK_ASSERT(config.shape == "cosine", config.shape);
  return config.min_lr +
         (config.lr - config.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace penstock
