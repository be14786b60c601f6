// `penstock handoff`: turns a ReLU-routed model into a model with k experts per token.
#include "penstock/convert/handoff.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/json_text.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/cli/processes/one_process.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

struct HandoffArguments {
  HandoffOptions options;
  std::string out;
  std::int64_t threads = 0;
  bool json = false;
};

const char* said(HandoffGates gates) {
  return gates == HandoffGates::kept ? "a softmax over the kept logits"
                                     : "probabilities over all experts";
}

void print_report(const HandoffArguments& arguments, const HandoffReport& report) {
  fmt::print("{}: {:g} of {} experts per token, gates: {}\n", arguments.out,
             report.config.active_experts(), report.config.total_experts(), said(report.gates));
  const std::vector<std::int64_t> numbers = report.config.moe_layer_indices();
  for (std::size_t l = 0; l < report.layers.size(); ++l)
    fmt::print("  layer {}: router x {:.4g}, experts x {:.4g}, squared error {:.1f} %\n",
               numbers[l], report.layers[l].scale, report.layers[l].output,
               100 * report.layers[l].error);
  if (report.other_error > 0)
    fmt::print("  mean squared error {:.1f} %; with the other gates {:.1f} %\n",
               100 * mean_error(report.layers), 100 * report.other_error);
  fmt::print("loss on {} other tokens: {:.4f}; the parent, with {:.2f} active experts, {:.4f}\n",
             grouped(report.measured_tokens), report.loss, report.parent_active,
             report.parent_loss);
  if (!report.without_tokenizer.empty())
    fmt::print("no tokenizer was copied: {}\n", report.without_tokenizer);
  fmt::print("train it on with: penstock train RECIPE --set train.init_from={}\n",
             shell_quoted(arguments.out));
}

void run_handoff(HandoffArguments arguments) {
  check_one_process("handoff");
  const EndOnSignal guard(kUnfinishedRemoved, {temporary_path(arguments.out)});
  ops::set_threads(static_cast<int>(arguments.threads));
  check_can_make(arguments.out);
  HandoffOptions& options = arguments.options;
  options.model = model_argument(options.model).path;
  ProgressLine line(stderr);
  const HandoffReport report = hand_off(options, real_file_system(), arguments.out, shown_on(line));
  line.finish();
  if (arguments.json)
    fmt::print("{}\n", json_text(to_json(report)));
  else
    print_report(arguments, report);
}

}  // namespace

void add_handoff_command(CLI::App& app) {
  auto arguments = std::make_shared<HandoffArguments>();
  HandoffOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand(
      "handoff", "Convert a ReLU-routed model (ReMoE) to k experts per token, for export");
  command->add_option("MODEL", options.model, "ReLU-routed model or run directory")->required();
  command->add_option("--out", arguments->out, "output directory")
      ->required()
      ->transform(output_path());
  add_field_options(*command, options);
  command->get_option("--calibration")->required();
  add_threads(*command, arguments->threads);
  add_json(*command, arguments->json, "print the report as one JSON object");
  command->footer(
      "Examples:\n"
      "  penstock handoff runs/remoe --calibration corpus --k 1 --out handed\n"
      "  penstock train recipe.toml --set train.init_from=handed --out runs/handed\n"
      "  penstock export runs/handed --format gguf --out handed.gguf");
  command->callback([arguments] { run_handoff(*arguments); });
}

}  // namespace penstock
