// Finds the borders of stages from trailing means.
#include "penstock/study/runs/stages.h"

#include "penstock/base/error.h"
#include "penstock/train/run_record.h"

namespace penstock::study {
namespace {

constexpr std::size_t kRiseWindow = 5;
constexpr double kRiseShare = 0.1;

// Mean of the `window` values that end at `last`.
double trailing_mean(std::span<const double> values, std::size_t last, std::size_t window) {
  double sum = 0;
  for (std::size_t i = last + 1 - window; i <= last; ++i) sum += values[i];
  return sum / static_cast<double>(window);
}

}  // namespace

const std::string_view kStageRule =
    "Stage III begins at the first step whose mean sparsity over the last 20 steps is within ±0.02 "
    "(where E/k is above 8: ±0.16·k/E) of the target 1 − k/E and stays there for the next 20 "
    "steps. Stage II begins where the 5-step mean has climbed a tenth of the way from its lowest "
    "value before that to the target. Everything earlier is stage I.";

Stages find_stages(std::span<const double> steps, std::span<const double> sparsity, double target) {
  PENSTOCK_ASSERT(steps.size() == sparsity.size());
  Stages stages;
  std::size_t end = sparsity.size();
  if (const auto settled = settled_step({sparsity.begin(), sparsity.end()}, target); settled > 0) {
    end = static_cast<std::size_t>(settled);
    stages.settled = static_cast<std::int64_t>(steps[end - 1]);
  }
  if (end < kRiseWindow) return stages;
  std::size_t lowest = kRiseWindow - 1;
  for (std::size_t i = kRiseWindow - 1; i < end; ++i)
    if (trailing_mean(sparsity, i, kRiseWindow) < trailing_mean(sparsity, lowest, kRiseWindow))
      lowest = i;
  const double low = trailing_mean(sparsity, lowest, kRiseWindow);
  for (std::size_t i = lowest; i < end; ++i) {
    if (trailing_mean(sparsity, i, kRiseWindow) < low + kRiseShare * (target - low)) continue;
    stages.sparsifying = static_cast<std::int64_t>(steps[i]);
    break;
  }
  return stages;
}

StageMeans stage_means(const Curve& curve, const Stages& stages) {
  double sums[3] = {}, counts[3] = {};
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const auto begun = [&](const std::optional<std::int64_t>& border) {
      return border && curve.steps[i] >= static_cast<double>(*border);
    };
    const std::size_t stage = begun(stages.settled) ? 2 : begun(stages.sparsifying) ? 1 : 0;
    sums[stage] += curve.values[i];
    counts[stage] += 1;
  }
  const auto mean = [&](std::size_t stage) {
    return counts[stage] > 0 ? std::optional(sums[stage] / counts[stage]) : std::nullopt;
  };
  return {.first = mean(0), .second = mean(1), .third = mean(2)};
}

}  // namespace penstock::study
