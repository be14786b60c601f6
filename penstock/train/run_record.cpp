#include "penstock/train/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "penstock/base/median.h"
#include "penstock/base/progress.h"
#include "penstock/base/threads.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/train/layouts/rank_spread.h"

namespace penstock {
namespace {

constexpr std::size_t settle_window = 20;

/// Whether the mean of steps [end − window, end) is within the tolerance of the target.
bool on_target(const std::vector<double>& sparsity, std::size_t end, double target) {
  double sum = 0;
  for (std::size_t i = end - settle_window; i < end; ++i) sum += sparsity[i];
  return std::fabs(sum / settle_window - target) <= settle_tolerance(target);
}

/// REQUIRES: the report's bytes are known.
double bits_per_byte(const StepReport& report) {
  return report.loss * static_cast<double>(report.tokens) / std::numbers::ln2 /
         static_cast<double>(report.bytes);
}

/// Share of the CPU's multiply-add peak; none if another device did the work or nobody counted it.
std::optional<double> share_of_peak(const StepOutcome& outcome, const MachineRecord& machine) {
  if (!outcome.on_cpu || outcome.report.flops == 0) return std::nullopt;
  return outcome.report.flops / outcome.seconds / machine.peak_flops;
}

/// The auxiliary losses by name, or their sum if the line has no space for names.
ProgressField auxiliary_field(const StepReport& report) {
  std::string text = "aux";
  double sum = 0;
  for (const auto& [part, loss] : report.auxiliary_losses) {
    text += fmt::format(" {} {:.3g}", part, loss);
    sum += loss;
  }
  return {.text = text, .rank = 2, .shorter = fmt::format("aux {:.3g}", sum), .shorter_rank = 6};
}

nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace

MachineRecord machine_record(const LanguageModel& model, int threads, double peak_flops) {
  MachineRecord out{.threads = threads,
                    .peak_flops = peak_flops,
                    .expert_layers = model.config().moe_layer_indices()};
  for (const auto& balancer : model.balancers())
    for (const auto& [name, value] : balancer->state()) out.balancer_state[name] = value;
  return out;
}

nlohmann::ordered_json metrics_line(std::int64_t step, const StepOutcome& outcome,
                                    const MachineRecord& machine) {
  const StepReport& report = outcome.report;
  nlohmann::ordered_json line = {{"step", step}, {"loss", report.loss}};
  if (report.bytes > 0) line["bits_per_byte"] = bits_per_byte(report);
  line["total_loss"] = report.total_loss;
  line["learning_rate"] = outcome.learning_rate;
  line["grad_norm"] = outcome.gradient_norm;
  if (report.texts > 0) {
    line["accuracy"] = report.accuracy;
    line["texts"] = report.texts;
    line["tokens"] = report.tokens;
  }
  line["tokens_per_second"] = static_cast<double>(report.tokens) / outcome.seconds;
  if (report.flops > 0) {
    line["share_of_peak"] = number_or_null(share_of_peak(outcome, machine));
    line["flops"] = report.flops;
  }
  line["peak_bytes"] = ops::peak_resident_bytes();
  line["step_seconds"] = outcome.seconds;
  if (outcome.ranks > 1) {
    line["ranks"] = outcome.ranks;
    line["communication_seconds"] = outcome.communication_seconds;
    if (!report.rank_seconds.empty()) line["rank_seconds"] = rank_spread(report.rank_seconds);
    if (outcome.expert_ranks > 1)
      if (auto load = expert_rank_load(report.load, outcome.expert_ranks); !load.is_null())
        line["rank_load"] = std::move(load);
  }
  if (outcome.outer_step > 0) line["outer_step"] = outcome.outer_step;
  if (report.consistency) line["consistency"] = *report.consistency;
  if (!report.auxiliary_losses.empty()) line["auxiliary_losses"] = report.auxiliary_losses;
  if (report.sparsity_by_layer.empty()) return line;
  line["sparsity"] = report.sparsity;
  line["active_experts"] = report.active_experts;
  for (const auto& [name, value] : machine.balancer_state) line[name] = value;
  for (const auto& [name, value] : report.statistics) line[name] = value;
  line["expert_layers"] = machine.expert_layers;
  line["sparsity_by_layer"] = report.sparsity_by_layer;
  line["load"] = report.load;
  return line;
}

WatchedStep watched_step(const nlohmann::ordered_json& line) {
  const auto number = [](const nlohmann::ordered_json& object, const std::string& name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_number() ? found->get<double>() : 0;
  };
  WatchedStep out{
      .loss = number(line, "loss"),
      .gradient_norm = number(line, line.contains("grad_norm") ? "grad_norm" : "gradient_norm"),
      .active_experts = number(line, "active_experts")};
  if (const auto losses = line.find("auxiliary_losses"); losses != line.end())
    for (const auto& [part, loss] : losses->items())
      out.auxiliary_losses[part] = number(*losses, part);
  return out;
}

double steered_experts(const ModelConfig& model) {
  return model.traits().steers_sparsity ? model.active_experts() : 0;
}

std::string progress_text(std::int64_t step, std::int64_t steps, const StepOutcome& outcome,
                          const MachineRecord& machine, const std::string& measured,
                          double seconds_left, const std::optional<ProgressField>& busy,
                          std::size_t columns) {
  const StepReport& report = outcome.report;
  std::vector<ProgressField> fields;
  const auto add = [&](int rank, std::string text) {
    fields.push_back({.text = std::move(text), .rank = rank});
  };
  add(0, fmt::format("step {}/{}", step, steps));
  if (busy) fields.push_back(*busy);
  add(0, fmt::format("loss {:.4f}", report.loss));
  if (report.bytes > 0) add(9, fmt::format("{:.3f} bits/byte", bits_per_byte(report)));
  if (report.texts > 0) add(2, fmt::format("accuracy {:.1f} %", 100 * report.accuracy));
  if (!report.auxiliary_losses.empty()) fields.push_back(auxiliary_field(report));
  add(3, fmt::format("grad {:.3g}", outcome.gradient_norm));
  add(7, fmt::format("lr {:.2g}", outcome.learning_rate));
  add(5, grouped(std::llround(static_cast<double>(report.tokens) / outcome.seconds)) + " tok/s");
  if (const auto share = share_of_peak(outcome, machine))
    add(8, fmt::format("{:.0f}% of peak", 100 * *share));
  if (!report.sparsity_by_layer.empty())
    fields.push_back({.text = fmt::format("sparsity {:.3f}", report.sparsity),
                      .shorter = fmt::format("sparse {:.2f}", report.sparsity),
                      .shorter_rank = 1});
  for (const auto& [name, value] : machine.balancer_state)
    add(4, fmt::format("{} {:.2g}", name, value));
  if (!measured.empty()) add(0, measured);
  add(0, duration_text(seconds_left) + " left");
  return fitted_line(std::move(fields), columns);
}

double settle_tolerance(double target) { return std::min(0.02, 0.16 * (1 - target)); }

std::int64_t settled_step(const std::vector<double>& sparsity, double target) {
  std::size_t run = 0;
  for (std::size_t end = settle_window; end <= sparsity.size(); ++end) {
    run = on_target(sparsity, end, target) ? run + 1 : 0;
    if (run > settle_window) return static_cast<std::int64_t>(end - settle_window);
  }
  return -1;
}

double held_share(const std::vector<double>& sparsity, double target, std::int64_t first) {
  double steps = 0, held = 0;
  for (std::size_t end = std::max(settle_window, static_cast<std::size_t>(first));
       end <= sparsity.size(); ++end, ++steps)
    held += on_target(sparsity, end, target);
  return steps > 0 ? held / steps : NAN;
}

nlohmann::ordered_json run_warnings(const std::vector<nlohmann::ordered_json>& lines) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& line : lines) {
    if (!line.contains("warnings")) continue;
    for (const auto& warning : line["warnings"])
      out.push_back({{"step", line.at("step").get<std::int64_t>()},
                     {"name", warning.at("name").get<std::string>()},
                     {"finding", warning.at("finding").get<std::string>()},
                     {"remedy", warning.at("remedy").get<std::string>()}});
  }
  return out;
}

nlohmann::ordered_json finished_record(const Recipe& recipe,
                                       const std::vector<nlohmann::ordered_json>& lines,
                                       const MachineRecord& machine) {
  std::vector<double> speed, share, sparsity;
  double flops = 0, tokens = 0;
  for (const auto& line : lines) {
    if (line.at("step") == 0) continue;  // not a step: measured before the first
    speed.push_back(line.at("tokens_per_second").get<double>());
    if (const auto& value = line.at("share_of_peak"); value.is_number())
      share.push_back(value.get<double>());
    flops += line.at("flops").get<double>();
    tokens += static_cast<double>(recipe.train.batch_sequences * recipe.train.sequence_length);
    if (line.contains("sparsity")) sparsity.push_back(line["sparsity"].get<double>());
  }
  const ParameterCounts counts = count_parameters(recipe.model);
  nlohmann::ordered_json out = {
      {"steps", recipe.train.steps},
      {"total_parameters", counts.total},
      {"active_parameters", counts.active},
      {"flops", flops},
      {"flops_per_token", tokens > 0 ? flops / tokens : 0},
      {"tokens_per_second", median(speed)},
      {"share_of_peak",
       share.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(median(share))},
      {"peak_bytes", ops::peak_resident_bytes()},
      {"peak_flops", machine.peak_flops},
      {"threads", machine.threads},
      {"machine", cpu_name()}};
  if (machine.ranks > 1) out["ranks"] = machine.ranks;
  out["causal"] = recipe.model.causal();
  out["by_thresholds"] = recipe.model.by_thresholds();
  if (recipe.model.moe_layers() > 0) out["expert_layers"] = recipe.model.moe_layer_indices();
  out["warnings"] = run_warnings(lines);
  // Only steered sparsity settles; top-k has its sparsity from the first step.
  if (!sparsity.empty() && recipe.model.traits().steers_sparsity) {
    const double target =
        1 - recipe.model.active_experts() / static_cast<double>(recipe.model.total_experts());
    const std::int64_t settled = settled_step(sparsity, target);
    out["target_sparsity"] = target;
    out["settled_step"] = nullptr;
    if (settled >= 0) {
      constexpr std::int64_t grace = 50;
      out["settled_step"] = settled;
      out["held_share"] = held_share(sparsity, target, settled + grace);  // NaN is written as null
    }
  }
  return out;
}

}  // namespace penstock
