// `penstock upcycle`: an MoE from a dense checkpoint.
#include "penstock/convert/upcycle/upcycle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_options.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/cli/processes/one_process.h"
#include "penstock/convert/export/export_choice.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/io/toml.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/files/open_model.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/freed_memory.h"

namespace penstock {
namespace {

constexpr std::int64_t kFewTokens = 1024;  // fewer tokens of calibration than this give a note

struct UpcycleArguments {
  UpcycleOptions options{.start = UpcycleStart::parent};
  std::string dense, out;
  std::vector<std::string> overrides;
  std::int64_t threads = 0;
};

/// Applies `--set KEY=VALUE` to the router's table; KEY is below model.router.
ConfigNode router_overrides(const std::vector<std::string>& overrides) {
  ConfigNode root{ConfigNode::Table{}};
  apply_overrides(root, overrides, kSetOption);
  for (const auto& [key, node] : root.table()) {
    PENSTOCK_CHECK(key == "model", kSetOption, " ", key,
                   ": of a model that exists already, only "
                   "model.router can be set");
    for (const auto& [inner, router] : node.table())
      PENSTOCK_CHECK(inner == "router", kSetOption, " model.", inner,
                     ": the dense model says that; only model.router can be set");
  }
  const ConfigNode* const model = root.find("model");
  const ConfigNode* const router = model ? model->find("router") : nullptr;
  return router ? *router : ConfigNode();
}

std::string group_text(const std::vector<HeadGroup>& groups) {
  return joined(groups, " ", [](const HeadGroup& group) {
    return fmt::format("{{{}}}", fmt::join(group, " "));
  });
}

/// Refuses options of the calibration text if no step of the upcycling reads a text.
void check_calibration_is_read(const CLI::App& command, const UpcycleOptions& options,
                               const ModelConfig& parent) {
  const ModelConfig config = upcycled_config(parent, options);
  if (takes_calibration(config, options)) return;
  for (const char* name : {"--calibration", "--calibration-tokens", "--calibration-window",
                           "--key-rope", "--key-bias"})
    PENSTOCK_CHECK(command.count(name) == 0, name, ": with these options no text is read, scorer '",
                   resolve(config.router).scorer, "' begins at random; leave it out");
}

/// Refuses options that would change nothing, or that contradict each other.
void check_options_matter(const CLI::App& command, const UpcycleOptions& options) {
  PENSTOCK_CHECK(command.count("--scale") == 0 || options.granularity > 1,
                 "--scale is for shards; give --granularity above 1, or leave it out");
  PENSTOCK_CHECK(command.count("--k") == 0 || !options.router_options.find("k"),
                 "--k and --set model.router.k say the same thing; give one");
}

void print_groups(const UpcycleReport& report) {
  for (std::size_t l = 0; l < report.groups.size(); ++l) {
    const HeadGroups& groups = report.groups[l];
    fmt::print("\nlayer {}: heads by the similarity of their mean keys{}\n", l,
               groups.parts > 1 ? fmt::format(", each cut in {}", groups.parts) : "");
    fmt::print("  routers  {}\n", group_text(groups.queries));
    if (groups.keys.size() != groups.queries.size())
      fmt::print("  keys     {}\n", group_text(groups.keys));
    if (report.tied[l] > 0)
      fmt::print("  {} keys equal another's, for their heads share one; told apart by noise\n",
                 report.tied[l]);
    fmt::print("  cosines  x100\n");
    const auto map = report.similarity[l].accessor<double, 2>();
    for (std::int64_t i = 0; i < map.size(0); ++i) {
      std::string row = "   ";
      for (std::int64_t j = 0; j < map.size(1); ++j) row += fmt::format("{:5.0f}", 100 * map[i][j]);
      fmt::print("{}\n", row);
    }
  }
}

/// The doctor's option for the text that calibrated the model; "" without such a text.
std::string doctor_text(const std::string& calibration) {
  if (calibration.empty()) return "";
  return (std::filesystem::is_directory(calibration) ? " --data " : " --text ") +
         shell_quoted(calibration);
}

/// Prints how a model starts that has a copy of the feed-forward beside its experts, whose gates
/// need not sum to one, or whose experts may refuse tokens.
void print_start(const UpcycleOptions& options, const UpcycleReport& report) {
  if (options.start == UpcycleStart::parent && options.shared_copy)
    fmt::print(
        "start: this model does not begin as its parent: the shared copy adds the whole "
        "feed-forward to what the experts add\n");
  if (!measures_gate_sums(report.config, options)) {
    if (options.start == UpcycleStart::parent && report.config.traits().drops)
      fmt::print(
          "start: this method does not begin as its parent where an expert is full: the gates of a "
          "token that it refuses sum to less than 1\n");
    return;
  }
  const auto [least, most] = std::ranges::minmax_element(report.gate_sums);
  if (report.config.traits().gates == GateForm::relu)
    fmt::print(
        "start: near the parent, not as it: a token's gates, which summed to {:.3g} to {:.3g} "
        "in the mean by layer, are scaled to sum to {} in the mean\n",
        *least, *most, options.granularity);
  else if (report.gate_sums.empty())
    fmt::print(
        "start: this method does not begin as its parent: a token's gates need not sum to 1 "
        "(--calibration TEXT measures what they sum to)\n");
  else
    fmt::print(
        "start: this method does not begin as its parent: a token's gates sum to {:.3g} to "
        "{:.3g} in the mean by layer, not to 1\n",
        *least, *most);
}

/// The options of a start that makes a model which GGUF files hold; "" if none does.
std::string start_that_exports(const ModelConfig& parent, UpcycleOptions options) {
  const std::string without = options.renormalise ? " without --renormalise" : "";
  options.renormalise = false;
  for (const UpcycleStart start : {UpcycleStart::published, UpcycleStart::parent}) {
    options.start = start;
    try {
      if (can_export(upcycled_config(parent, options), ExportFormat::kGguf))
        return concat("--start ", word(start), without);
    } catch (const Error&) {  // the options do not fit this start
      continue;
    }
  }
  return {};
}

/// Prints a line if no GGUF file holds the model, with what does, or if training takes that from
/// it.
/// @param options  as the user gave them
void print_exports(const ModelConfig& config, const ModelConfig& parent,
                   const UpcycleOptions& options, const std::string& out) {
  if (const auto lost = export_lost_by_training(config); !lost.empty())
    fmt::print("export: {}\n", lost);
  if (can_export(config, ExportFormat::kGguf)) return;
  const std::string start = start_that_exports(parent, options);
  fmt::print("export: no GGUF file holds this model (`penstock export {} --format gguf` says why)",
             shell_quoted(out));
  if (!start.empty()) fmt::print("; one made with {} exports", start);
  if (can_export(config, ExportFormat::kHuggingFace))
    fmt::print("; a Hugging Face folder holds this one (--format hf)");
  fmt::print("\n");
}

void run_upcycle(const CLI::App& command, const UpcycleArguments& arguments) {
  check_one_process("upcycle");
  const EndOnSignal guard(kUnfinishedRemoved, {temporary_path(arguments.out)});
  ops::set_threads(static_cast<int>(arguments.threads));
  ops::give_back_freed_memory();
  check_can_make(arguments.out);
  UpcycleOptions given = arguments.options;
  given.router_options = router_overrides(arguments.overrides);
  const UpcycleOptions options = completed(given);
  check_options_matter(command, options);
  const std::string directory = model_argument(arguments.dense).path;
  const auto parent = open_model_source(directory);
  check_can_upcycle(parent->config(), directory);
  check_calibration_is_read(command, options, parent->config());
  ProgressLine line(stderr);
  const UpcycleReport report =
      upcycle(*parent, options, real_file_system(), arguments.out, {}, shown_on(line));
  line.finish();
  const ModelConfig& config = report.config;
  const ParameterCounts counts = count_parameters(config);
  if (!report.groups.empty()) {
    fmt::print("keys: means over {} tokens of {}{}\n", grouped(report.calibration_tokens),
               options.calibration,
               report.calibration_tokens < kFewTokens ? "; so few say little: give more text" : "");
    print_groups(report);
    fmt::print("\n");
  }
  fmt::print("{}: {} of {} experts (f={}), k={:g}, method {}, scorer {}\n", arguments.out,
             count_text(config.moe_layers(), "layer"), config.total_experts(),
             config.expert_width(), config.active_experts(), config.router.method,
             resolve(config.router).scorer);
  fmt::print("parameters: {} total, {} active, {} of routers; {}\n", grouped(counts.total),
             grouped(counts.active), grouped(counts.router),
             size_text(static_cast<double>(report.bytes)));
  if (options.granularity > 1)
    fmt::print("shards: {} of each feed-forward, results scaled by a = {:g} ({})\n",
               options.granularity, report.shard_scale, word(options.scale));
  for (std::size_t l = 0; l < report.cluster_sizes.size(); ++l) {
    const auto [least, most] = report.cluster_sizes[l].aminmax();
    fmt::print("layer {}: the router's rows are means of {} to {} of {} inputs\n", l,
               least.item<std::int64_t>(), most.item<std::int64_t>(),
               report.cluster_sizes[l].sum().item<std::int64_t>());
  }
  for (std::size_t l = 0; l < report.logit_scales.size(); ++l)
    fmt::print("layer {}: logits times {:.4g}; entropy {:.3f} to {:.3f} nats\n", l,
               report.logit_scales[l].factor, report.logit_scales[l].entropy_before,
               options.start_entropy);
  print_start(options, report);
  if (report.lr_scale != 1)
    fmt::print("routers learn at {:g} times the learning rate\n", report.lr_scale);
  if (!report.without_tokenizer.empty())
    fmt::print("no tokenizer was copied: {}\n", report.without_tokenizer);
  print_exports(config, parent->config(), given, arguments.out);
  fmt::print("check it with: penstock doctor {} --dense {}{}\n", shell_quoted(arguments.out),
             shell_quoted(arguments.dense), doctor_text(options.calibration));
}

}  // namespace

void add_upcycle_command(CLI::App& app) {
  auto arguments = std::make_shared<UpcycleArguments>();
  CLI::App* command = app.add_subcommand("upcycle", "Make an MoE from a dense model");
  command->add_option("DENSE", arguments->dense, "dense model or run directory")->required();
  command->add_option("--out", arguments->out, "output directory")
      ->required()
      ->transform(output_path());
  add_field_options(*command, arguments->options);
  command->add_option("--seed", arguments->options.seed, "seed of random routers and noise")
      ->capture_default_str()
      ->check(whole_number(0));
  command->add_flag("--force", arguments->options.force,
                    "upcycle even if memory or the disk seems too small");
  add_overrides(*command, arguments->overrides,
                "override a key of the result: --set model.router.load-balance.coefficient=0");
  add_threads(*command, arguments->threads);
  command->footer(
      "Examples:\n"
      "  penstock upcycle qwen --method router-upcycling --calibration corpus --out moe\n"
      "  penstock upcycle qwen --method vanilla --experts 8 --k 2 --out moe\n"
      "  penstock upcycle qwen --method remoe --scorer router-upcycling --calibration text.txt "
      "--out moe\n"
      "  penstock upcycle qwen --method vanilla --granularity 4 --out moe");
  command->callback([arguments, command] { run_upcycle(*command, *arguments); });
}

}  // namespace penstock
