// A run's record of itself: a line of metrics.jsonl, the progress line, the warnings, and
// finished.json of a training. Fine-tuning says the same in the same words.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "penstock/base/progress.h"
#include "penstock/models/language_model.h"
#include "penstock/train/recipe.h"
#include "penstock/train/step/objective_watch.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

/// The machine's yardstick, and the balancers' state (λ) as it stands.
struct MachineRecord {
  int threads = 1;
  double peak_flops = 0;  ///< of the CPU
  std::map<std::string, double> balancer_state;
  int ranks = 1;  ///< processes, each of as many threads; the peak is of all
};

/// With the state that the model's balancers have now.
MachineRecord machine_record(const LanguageModel& model, int threads, double peak_flops);

/// One line of metrics.jsonl, without what was measured and elapsed seconds. `step` counts
/// completed steps. What a kind of run does not know (bytes, FLOPs, texts) is left out.
/// "share_of_peak" is of the CPU's peak, and null when another device did the step; "peak_bytes" is
/// host memory, whatever the device.
nlohmann::ordered_json metrics_line(std::int64_t step, const StepOutcome& outcome,
                                    const MachineRecord& machine);

/// What a line of metrics.jsonl says of its step's objective; fine-tunings of before named the norm
/// "gradient_norm".
WatchedStep watched_step(const nlohmann::ordered_json& line);

/// Active experts per token that a balancer steers the model to; 0 where none does.
double steered_experts(const ModelConfig& model);

/// The progress line, of at most `columns` where its first fields allow; `measured` is what the
/// last measurement found ("valid 1.6000"), "": none yet; `busy` is the processor's share, if
/// anything is to be said of it. In a narrow line `busy` is shortened and bits per byte go first;
/// step, loss, sparsity, what was measured and time left stay.
std::string progress_text(std::int64_t step, std::int64_t steps, const StepOutcome& outcome,
                          const MachineRecord& machine, const std::string& measured,
                          double seconds_left, const std::optional<ProgressField>& busy,
                          std::size_t columns);

/// The warnings of all lines of metrics.jsonl as a list of {"step", "name", "finding", "remedy"}.
nlohmann::ordered_json run_warnings(const std::vector<nlohmann::ordered_json>& lines);

/// finished.json from the lines of metrics.jsonl: medians, memory, where sparsity settled and how
/// well it was held from 50 steps later on (share of steps whose 20-step mean is within ±0.02), and
/// the warnings of all steps.
nlohmann::ordered_json finished_record(const Recipe& recipe,
                                       const std::vector<nlohmann::ordered_json>& lines,
                                       const MachineRecord& machine);

/// First step from which the mean sparsity of the 20 steps up to it is within ±0.02 of the target,
/// and the next 20 steps' means too; -1 when it never settles. sparsity[i] is step i+1's.
std::int64_t settled_step(const std::vector<double>& sparsity, double target);

/// Share of steps from `first` on whose mean over the 20 steps up to them is within ±0.02 of the
/// target; NaN when there are none.
double held_share(const std::vector<double>& sparsity, double target, std::int64_t first);

}  // namespace penstock
