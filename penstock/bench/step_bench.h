// One whole training step of a recipe's model, timed and profiled: forward, backward, clipping,
// optimizer, on synthetic tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/bench/bench_options.h"
#include "penstock/bench/operator_table.h"
#include "penstock/train/recipe.h"

namespace penstock::bench {

struct StepBench {
  std::string recipe;
  std::int64_t tokens = 0, steps = 0;
  BenchClock clock = BenchClock::wall;
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;  ///< of products, and of the peak
  // Medians over the steps:
  double seconds = 0, forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0;
  double tokens_per_second = 0;
  double useful_flops_per_second = 0;
  double flops = 0;  ///< useful FLOPs of a step, mean
  double peak_before = 0, peak_after = 0;
  MachineLimits machine;            ///< the peak is the mean of before and after
  double preempted_per_second = 0;  ///< how often something else took a processor, while timing
  double peak_bytes = 0;            ///< of this process, when the last step was done
  OperatorTable table;
  double active_experts = 0;              ///< per token and MoE layer, mean over the steps
  std::vector<std::vector<double>> load;  ///< [L][E] assignments per token in the last step

  /// Useful FLOPs per second over the multiply-add peak of all threads.
  double share_of_peak() const { return useful_flops_per_second / machine.peak_flops; }
  /// Useful training FLOPs of a token, mean over the steps.
  double flops_per_token() const { return flops / static_cast<double>(tokens); }
};

/// Measures with the threads of the recipe's run.threads. Throws Error for a recipe that needs a
/// corpus to be complete, and where a loss is not finite.
StepBench measure_step(const Recipe& recipe, const BenchOptions& options);

/// Everything measured, as `penstock bench step --json` prints it; times in seconds.
nlohmann::ordered_json to_json(const StepBench& step);
/// The same for people, as a table of several lines.
std::string to_text(const StepBench& step);

}  // namespace penstock::bench
