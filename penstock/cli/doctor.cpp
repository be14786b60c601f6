// `penstock doctor`: checks whether a model is fit for training.
#include "penstock/doctor/doctor.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

/// What the checks keep of each token fits into memory.
constexpr std::int64_t kMostTokens = 1 << 20;

struct DoctorArguments {
  std::string model, data;
  DoctorOptions options;
  std::int64_t threads = 0;
  bool json = false;
};

const char* state_word(CheckState state) {
  return state == CheckState::ok ? "ok" : state == CheckState::warning ? "warning" : "fault";
}

nlohmann::ordered_json diagnosis_json(const Diagnosis& diagnosis) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array(),
                         layers = nlohmann::ordered_json::array();
  for (const Check& check : diagnosis.checks)
    checks.push_back({{"check", check.name},
                      {"state", state_word(check.state)},
                      {"finding", check.finding},
                      {"remedy", check.remedy}});
  for (const LayerFigures& layer : diagnosis.layers) {
    nlohmann::ordered_json figures = {{"moe_layer", layer.layer},
                                      {"model_layer", layer.model_layer},
                                      {"entropy", layer.entropy},
                                      {"logit_sd", layer.logit_sd},
                                      {"experts_per_token", layer.active},
                                      {"gate_sum", layer.gate_sum},
                                      {"least_gate_sum", layer.least_gates},
                                      {"most_gate_sum", layer.most_gates},
                                      {"largest_share", layer.largest_share},
                                      {"load_experts", layer.load_experts},
                                      {"idle_experts", layer.idle},
                                      {"nearly_idle_experts", layer.nearly_idle}};
    if (layer.fold_error >= 0) figures["fold_error"] = layer.fold_error;
    layers.push_back(figures);
  }
  nlohmann::ordered_json objective = nlohmann::ordered_json::array();
  for (const TermFigures& term : diagnosis.objective)
    objective.push_back(
        {{"term", term.name}, {"loss", term.loss}, {"gradient_norm", term.gradient_norm}});
  return {{"state", state_word(diagnosis.worst())},
          {"checks", checks},
          {"objective", objective},
          {"layers", layers}};
}

void print_diagnosis(const Diagnosis& diagnosis) {
  for (const Check& check : diagnosis.checks) {
    fmt::print("{:<8} {:<20} {}\n", state_word(check.state), check.name, check.finding);
    if (!check.remedy.empty()) fmt::print("{:<8} {:<20} -> {}\n", "", "", check.remedy);
  }
  if (!diagnosis.layers.empty())
    fmt::print("\n{:>9} {:>8} {:>9} {:>8} {:>9} {:>8} {:>6}\n", "layer", "entropy", "logit sd",
               "experts", "gate sum", "busiest", "idle");
  for (const LayerFigures& layer : diagnosis.layers)
    fmt::print("{:>9} {:>8.3f} {:>9.3f} {:>8.2f} {:>9.3f} {:>8.3f} {:>6}\n", layer.model_layer,
               layer.entropy, layer.logit_sd, layer.active, layer.gate_sum, layer.largest_share,
               layer.idle);
  fmt::print("\n{}\n", diagnosis.worst() == CheckState::ok ? "healthy"
                       : diagnosis.worst() == CheckState::warning
                           ? "see the warnings"
                           : "not fit to be trained: see the faults");
}

void run_doctor(DoctorArguments arguments, int& exit_code) {
  ops::set_threads(static_cast<int>(arguments.threads));
  PENSTOCK_CHECK(arguments.data.empty() || arguments.options.text.empty(),
                 "--data and --text are two ways to give text; give one");
  if (!arguments.data.empty()) arguments.options.text = arguments.data;
  if (!arguments.options.dense.empty())
    arguments.options.dense = model_argument(arguments.options.dense).path;
  const EndOnSignal guard(kNothingWritten);
  const Diagnosis diagnosis = examine(model_argument(arguments.model).path, arguments.options);
  if (arguments.json)
    fmt::print("{}\n", json_text(diagnosis_json(diagnosis), 2));
  else
    print_diagnosis(diagnosis);
  exit_code = diagnosis.worst() == CheckState::fault ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Check an MoE for faults before training; exits with 1 on a fault");
  command->add_option("MODEL", arguments->model, "model or run directory")->required();
  command->add_option("--dense", arguments->options.dense,
                      "dense model that the MoE was made from");
  command->add_option("--text", arguments->options.text,
                      "text file to route, with the model's own tokenizer");
  command->add_option("--data", arguments->data,
                      "corpus directory to route; without --text and --data: random token ids");
  command->add_option("--tokens", arguments->options.tokens, "largest number of tokens to route")
      ->capture_default_str()
      ->check(whole_number(2, kMostTokens));
  add_threads(*command, arguments->threads);
  add_json(*command, arguments->json);
  command->footer(
      "Examples:\n"
      "  penstock doctor moe --dense qwen --text text.txt\n"
      "  penstock doctor runs/moe --data corpus --json");
  command->callback([arguments, &exit_code] { run_doctor(*arguments, exit_code); });
}

}  // namespace penstock
