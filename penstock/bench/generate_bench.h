// Times generation: the prompt is read as one block, then each step reads one token per sequence.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/bench/operator_table.h"
#include "penstock/models/language_model.h"

namespace penstock::bench {

struct GenerateBenchOptions {
  std::int64_t prompt = 0;  ///< tokens in the prompt; 0: 512, fewer in a shorter context
  std::int64_t tokens = 0;  ///< steps after the prompt; 0: 128, fewer in a shorter context
  std::int64_t batch = 1;   ///< number of sequences
  std::int64_t repetitions = 5;
  int threads = 1;              ///< as ops::set_threads() returned
  double memory_bandwidth = 0;  ///< bytes per second; 0: it is measured
};

struct GenerateBench {
  GenerateBenchOptions options;         ///< with the lengths that were measured
  double prompt_tokens_per_second = 0;  ///< median over the repetitions
  double tokens_per_second = 0;         ///< of the steps, over all sequences; median
  double bytes_per_step = 0;            ///< least bytes that a step's operators read and write
  MachineLimits machine;
  double preempted_per_second = 0;  ///< preemptions of this process while timing
  OperatorTable prompt, step;       ///< means of one more repetition, profiled

  double steps_per_second() const { return tokens_per_second / static_cast<double>(options.batch); }
  /// The steps' bytes per second ÷ the memory bandwidth; above 1 if weights stay in a cache.
  double share_of_bandwidth() const {
    return bytes_per_step * steps_per_second() / machine.memory_bandwidth;
  }
  /// The time of the prompt's FLOPs at the multiply-add peak ÷ the prompt's time. Products in bf16
  /// have their own peak.
  double share_of_peak() const {
    const auto tokens = static_cast<double>(options.prompt * options.batch);
    return prompt.peak_seconds(machine) / tokens * prompt_tokens_per_second;
  }
};

/// Measures with random tokens. Throws Error for a router that is not causal, and if prompt and
/// tokens as given exceed the model's context.
GenerateBench measure_generate(const std::shared_ptr<LanguageModel>& model,
                               const GenerateBenchOptions& asked);

/// Everything measured, as `penstock bench generate --json` prints it.
nlohmann::ordered_json to_json(const GenerateBench& bench);
/// The same for people.
std::string to_text(const GenerateBench& bench);

}  // namespace penstock::bench
