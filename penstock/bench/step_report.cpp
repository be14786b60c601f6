// What `penstock bench step` prints, as JSON and for people.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "penstock/bench/load_text.h"
#include "penstock/bench/step_bench.h"

namespace penstock::bench {
nlohmann::ordered_json to_json(const StepBench& step) {
  nlohmann::ordered_json out = {{"recipe", step.recipe},
                                {"data", "uniform random tokens"},
                                {"tokens", step.tokens},
                                {"steps", step.steps},
                                {"threads", step.machine.threads},
                                {"clock", word(step.clock)},
                                {"precision", word(step.precision)},
                                {"tokens_per_second", step.tokens_per_second},
                                {"seconds", step.seconds},
                                {"forward_seconds", step.forward_seconds},
                                {"backward_seconds", step.backward_seconds},
                                {"optimizer_seconds", step.optimizer_seconds},
                                {"flops_per_token", step.flops_per_token()},
                                {"useful_flops_per_second", step.useful_flops_per_second},
                                {"share_of_peak", step.share_of_peak()},
                                {"peak_flops", step.machine.peak_flops},
                                {"peak_flops_before", step.peak_before},
                                {"peak_flops_after", step.peak_after},
                                {"memory_bandwidth", step.machine.memory_bandwidth},
                                {"peak_bytes", step.peak_bytes},
                                {"preempted_per_second", step.preempted_per_second},
                                {"profiled_seconds", step.table.seconds},
                                {"operators", operators_json(step.table, step.machine)},
                                {"outside_share", step.table.outside_share()},
                                {"outside", outside_json(step.table)}};
  if (!step.load.empty()) {
    out["active_experts"] = step.active_experts;
    out["load"] = step.load;
  }
  return out;
}

std::string to_text(const StepBench& s) {
  std::string out = fmt::format(
      "{}: {} tokens a step (uniform random tokens), {} thread{}, {} time, median of {} "
      "steps\n"
      "  {:.0f} tokens/s   {:.2f} MFLOP/token   {:.1f} % of the peak of {:.1f} GFLOP/s in {} "
      "(before {:.1f}, after {:.1f})\n"
      "  step {:.1f} ms: forward {:.1f}, backward {:.1f}, clipping and optimizer {:.1f}\n"
      "  peak memory {:.0f} MiB   memory bandwidth {:.1f} GB/s\n",
      s.recipe.empty() ? "step" : s.recipe, s.tokens, s.machine.threads,
      s.machine.threads == 1 ? "" : "s", word(s.clock), s.steps, s.tokens_per_second,
      s.flops_per_token() / 1e6, 100 * s.share_of_peak(), s.machine.peak_flops / 1e9,
      word(s.precision), s.peak_before / 1e9, s.peak_after / 1e9, 1e3 * s.seconds,
      1e3 * s.forward_seconds, 1e3 * s.backward_seconds, 1e3 * s.optimizer_seconds,
      s.peak_bytes / (1 << 20), s.machine.memory_bandwidth / 1e9);
  constexpr double few = 20;
  if (s.clock == BenchClock::wall && s.preempted_per_second > few)
    out += fmt::format(
        "  NOTE: other programs took a processor {:.0f} times a second; measure on a quiet "
        "machine\n",
        s.preempted_per_second);
  out += "\n" + table_text(s.table, s.machine);
  if (!s.load.empty())
    out += fmt::format("\n{:.3f} active experts per token; assignments per token by expert:\n{}",
                       s.active_experts, load_text(s.load));
  return out;
}

}  // namespace penstock::bench
