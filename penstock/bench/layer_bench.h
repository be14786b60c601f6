// Times one feed-forward layer of a recipe, dense or MoE: forward, backward and the optimizer's
// step. A sweep shows how this cost grows with experts or tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/bench/bench_options.h"
#include "penstock/bench/operator_table.h"
#include "penstock/train/recipe.h"

namespace penstock::bench {

struct LayerBenchOptions : BenchOptions {
  std::int64_t tokens = 0;  ///< rows of the layer's input; 0: the recipe's micro-batch
};

struct LayerBench {
  std::int64_t tokens = 0, steps = 0;
  BenchClock clock = BenchClock::wall;
  std::int64_t d_model = 0, d_ffn = 0, experts = 0;  ///< d_ffn of one expert; experts is 0 if dense
  // Medians over the steps:
  double forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0;
  double useful_flops_per_second = 0;  ///< of forward and backward together
  // Means over the steps:
  double useful_flops = 0;    ///< of forward and backward
  double active_experts = 0;  ///< per token
  std::vector<double> load;   ///< [E] assignments per token in the last step
  MachineLimits machine;
  OperatorTable table;

  /// Useful FLOPs per second ÷ the multiply-add peak of all threads.
  double share_of_peak() const { return useful_flops_per_second / machine.peak_flops; }
};

/// Times the layer. Its input and its output's gradient are normal draws. Throws Error if the
/// recipe does not allow this bench.
LayerBench measure_layer(const Recipe& recipe, const LayerBenchOptions& options);

/// Everything measured, as `penstock bench layer --json` prints it; times in seconds.
nlohmann::ordered_json to_json(const LayerBench& layer);
/// The same for people, as a table of several lines.
std::string to_text(const LayerBench& layer);

/// One line of a sweep. If `first`, the heading precedes it.
std::string sweep_text(const LayerBench& layer, bool first);
/// The JSON of one point of a sweep: to_json without operators and load.
nlohmann::ordered_json sweep_json(const LayerBench& layer);

}  // namespace penstock::bench
