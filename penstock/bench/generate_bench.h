// Generation timed: reading a prompt as one block, then one token of each sequence at a time.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/bench/operator_table.h"
#include "penstock/models/language_model.h"

namespace penstock::bench {

struct GenerateBenchOptions {
  std::int64_t prompt = 512;  ///< tokens of the prompt
  std::int64_t tokens = 128;  ///< steps after it
  std::int64_t batch = 1;     ///< sequences
  std::int64_t repetitions = 5;
  int threads = 1;              ///< as ops::set_threads() returned
  double memory_bandwidth = 0;  ///< known already; 0: measured
};

struct GenerateBench {
  GenerateBenchOptions options;
  double prompt_tokens_per_second = 0;  ///< median over the repetitions
  double tokens_per_second = 0;         ///< of the steps, all sequences together; the same
  double bytes_per_step = 0;            ///< what a step's operators read and write at the least
  double flops_per_prompt_token = 0;    ///< of the operators
  MachineLimits machine;
  double preempted_per_second = 0;  ///< how often something else took a processor, while timing
  OperatorTable prompt, step;       ///< of one more repetition, profiled: its means

  double steps_per_second() const { return tokens_per_second / static_cast<double>(options.batch); }
  /// Bytes of the steps per second over the memory's bandwidth; above 1 where weights stay in a
  /// cache.
  double share_of_bandwidth() const {
    return bytes_per_step * steps_per_second() / machine.memory_bandwidth;
  }
  /// The prompt's FLOPs per second over the multiply-add peak.
  double share_of_peak() const {
    return flops_per_prompt_token * prompt_tokens_per_second / machine.peak_flops;
  }
};

/// Measures on random tokens. Throws Error for a router that is not causal, and where prompt and
/// tokens are more than the model's context.
GenerateBench measure_generate(const std::shared_ptr<LanguageModel>& model,
                               const GenerateBenchOptions& options);

/// Everything measured, as `penstock bench generate --json` prints it.
nlohmann::ordered_json to_json(const GenerateBench& bench);
/// The same for people.
std::string to_text(const GenerateBench& bench);

}  // namespace penstock::bench
