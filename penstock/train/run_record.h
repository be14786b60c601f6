// Writes a run's records: a line of metrics.jsonl, the progress line, the warnings, and
// finished.json of a training. Fine-tuning uses the same functions.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/progress.h"
#include "penstock/models/language_model.h"
#include "penstock/train/recipe.h"
#include "penstock/train/step/objective_watch.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

/// The speed of the machine, and what lines say of the model: its layers with experts and the
/// present state of its balancers (λ).
struct MachineRecord {
  int threads = 1;
  double peak_flops = 0;  ///< of the CPU, summed over the ranks
  std::map<std::string, double> balancer_state;
  int ranks = 1;                            ///< processes, each with `threads` threads
  std::vector<std::int64_t> expert_layers;  ///< index of each MoE layer among all layers
};

/// The record with the model's MoE layers and the present state of its balancers.
MachineRecord machine_record(const LanguageModel& model, int threads, double peak_flops);

/// One line of metrics.jsonl, without measurements and elapsed seconds. `step` counts completed
/// steps. Figures that a kind of run does not know (bytes, FLOPs, texts) are left out.
/// "share_of_peak" is relative to the CPU's peak, and null if another device computed the step.
/// "peak_bytes" is host memory, on any device. Lists by layer ("load", "sparsity_by_layer") count
/// the MoE layers alone; "expert_layers" has their numbers in the model.
nlohmann::ordered_json metrics_line(std::int64_t step, const StepOutcome& outcome,
                                    const MachineRecord& machine);

/// The figures of the step's objective in a line of metrics.jsonl. Older fine-tunings named the
/// norm "gradient_norm".
WatchedStep watched_step(const nlohmann::ordered_json& line);

/// Active experts per token to which a balancer steers the model; 0 without such a balancer.
double steered_experts(const ModelConfig& model);

/// The progress line, with at most `columns` columns where its first fields allow that. `measured`
/// is the text of the last measurement ("valid 1.6000"); "": none yet. `busy` is the processor's
/// share, if it is worth showing. A narrow line shortens `busy` and first leaves out bits per byte.
/// It always keeps step, loss, sparsity, `measured` and the time left.
std::string progress_text(std::int64_t step, std::int64_t steps, const StepOutcome& outcome,
                          const MachineRecord& machine, const std::string& measured,
                          double seconds_left, const std::optional<ProgressField>& busy,
                          std::size_t columns);

/// The warnings of all lines of metrics.jsonl as a list of {"step", "name", "finding", "remedy"}.
nlohmann::ordered_json run_warnings(const std::vector<nlohmann::ordered_json>& lines);

/// finished.json, made from the lines of metrics.jsonl: medians, memory, the warnings of all steps,
/// the step at which sparsity settled, and how well sparsity was held from 50 steps later on
/// (held_share). With experts, "expert_layers" as in a line.
nlohmann::ordered_json finished_record(const Recipe& recipe,
                                       const std::vector<nlohmann::ordered_json>& lines,
                                       const MachineRecord& machine);

/// The largest distance of a mean sparsity from its target, 1 − k/E, at which it counts as on
/// target: min(0.02, 0.16·k/E). For E/k up to 8 it is 0.02, and beyond that 16 % of the target's
/// active experts. A tolerance of 0.02 alone would count a model without any active expert as on
/// target from E/k = 50 on.
double settle_tolerance(double target);

/// First step at which the mean sparsity of the 20 steps up to it is within settle_tolerance() of
/// the target, and the same holds for each of the next 20 steps; -1 when sparsity never settles.
/// sparsity[i] belongs to step i + 1.
std::int64_t settled_step(const std::vector<double>& sparsity, double target);

/// Share of the steps from `first` on at which the mean of the 20 steps up to this step is within
/// settle_tolerance() of the target; NaN if there are no such steps.
double held_share(const std::vector<double>& sparsity, double target, std::int64_t first);

}  // namespace penstock
