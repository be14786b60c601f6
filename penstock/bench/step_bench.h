// Times and profiles a whole training step of a recipe's model on synthetic tokens: forward,
// backward, clipping and optimizer.
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
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;  ///< of products and of the peak
  // Medians over the steps:
  double seconds = 0, forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0;
  double tokens_per_second = 0;
  double useful_flops_per_second = 0;
  double flops = 0;  ///< useful FLOPs of a step, mean
  double peak_before = 0, peak_after = 0;
  MachineLimits machine;            ///< its peak is the mean of peak_before and peak_after
  double preempted_per_second = 0;  ///< preemptions of this process while timing
  double peak_bytes = 0;            ///< peak memory of this process after the last step
  OperatorTable table;
  double active_experts = 0;              ///< per token and MoE layer, mean over the steps
  std::vector<std::vector<double>> load;  ///< [L][E] assignments per token in the last step

  /// Useful FLOPs per second ÷ the multiply-add peak of all threads.
  double share_of_peak() const { return useful_flops_per_second / machine.peak_flops; }
  /// Useful training FLOPs of a token, mean over the steps.
  double flops_per_token() const { return flops / static_cast<double>(tokens); }
};

/// Measures with run.threads threads. Throws Error for a recipe that is incomplete without a
/// corpus, and if a loss is not finite.
StepBench measure_step(const Recipe& recipe, const BenchOptions& options);

/// Everything measured, as `penstock bench step --json` prints it; times in seconds.
nlohmann::ordered_json to_json(const StepBench& step);
/// The same for people, as a table of several lines.
std::string to_text(const StepBench& step);

}  // namespace penstock::bench
