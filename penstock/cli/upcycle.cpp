#include "penstock/cli/upcycle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/end_on_signal.h"
#include "penstock/cli/model_argument.h"
#include "penstock/cli/output_path.h"
#include "penstock/cli/whole_number.h"
#include "penstock/convert/upcycle.h"
#include "penstock/io/toml.h"
#include "penstock/models/census.h"
#include "penstock/ops/dispatch.h"
#include "penstock/routers/named.h"

namespace penstock {
namespace {

constexpr std::int64_t kFewTokens = 1024;  // of calibration

struct UpcycleArguments {
  UpcycleOptions options;
  std::string dense, out, scale = "published", shared, key_rope = "pre", key_bias = "keep",
                          query_bias = "drop", router_form = "factored", lr_scale, start = "parent";
  std::vector<std::string> overrides;
  std::optional<double> k;
  std::int64_t threads = 0, seed = 1;
};

/// @param word  what may stand in place of a number
double number_of(const std::string& option, const std::string& text, const char* word) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  PENSTOCK_CHECK(used == text.size() && value > 0, option, " ", text,
                 ": give a number above 0, or `", word, "`");
  return value;
}

/// Lays `--set model.router.a.b=c` over the router's table.
ConfigNode router_overrides(const std::vector<std::string>& overrides) {
  ConfigNode root{ConfigNode::Table{}};
  apply_overrides(root, overrides);
  for (const auto& [key, node] : root.table()) {
    PENSTOCK_CHECK(key == "model", "--set ", key,
                   ": of a model that exists already, only "
                   "model.router can be set");
    for (const auto& [inner, router] : node.table())
      PENSTOCK_CHECK(inner == "router", "--set model.", inner,
                     ": the dense model says that; only model.router can be set");
  }
  const ConfigNode* const model = root.find("model");
  const ConfigNode* const router = model ? model->find("router") : nullptr;
  return router ? *router : ConfigNode();
}

UpcycleOptions options_of(const UpcycleArguments& a) {
  UpcycleOptions options = a.options;
  const Method& method = method_named(options.method, "--method");
  PENSTOCK_CHECK(!method.selector.empty(), "--method ", options.method, " has no router");
  const SelectorTraits traits = selector_registry().at(method.selector).traits;
  const double several = traits.has_k || traits.variable_active ? 2 : 1;
  options.k = a.k.value_or(method.k > 0 ? method.k : several);
  options.scale = a.scale == "none"    ? ShardScale::none
                  : a.scale == "exact" ? ShardScale::exact
                                       : ShardScale::published;
  options.start = a.start == "parent" ? UpcycleStart::parent : UpcycleStart::published;
  options.shared_copy = a.shared == "copy";
  if (!a.shared.empty() && !options.shared_copy) {
    const double width = number_of("--shared-expert", a.shared, "copy");
    PENSTOCK_CHECK(width == static_cast<double>(static_cast<std::int64_t>(width)),
                   "--shared-expert ", a.shared, ": give a whole number, or `copy`");
    options.shared_width = static_cast<std::int64_t>(width);
  }
  options.keys_after_rope = a.key_rope == "post";
  options.key_bias = a.key_bias == "keep";
  options.query_bias = a.query_bias == "keep";
  options.collapsed = a.router_form == "collapsed";
  options.match_lr = a.lr_scale == "match";
  if (!a.lr_scale.empty() && !options.match_lr)
    options.lr_scale = number_of("--lr-scale", a.lr_scale, "match");
  options.seed = static_cast<std::uint64_t>(a.seed);
  options.router_options = router_overrides(a.overrides);
  return options;
}

std::string group_text(const std::vector<HeadGroup>& groups) {
  std::string out;
  for (const HeadGroup& group : groups)
    out += fmt::format("{}{{{}}}", out.empty() ? "" : " ", fmt::join(group, " "));
  return out;
}

/// What a user asked of the text that keys are means over, where nothing reads one.
void check_calibration_is_read(const CLI::App& command, const UpcycleOptions& options,
                               const ModelConfig& parent) {
  const ModelConfig config = upcycled_config(parent, options);
  const ResolvedRouter router = resolve(config.router);
  if (router.traits.of_heads || options.match_logits || options.match_lr ||
      options.start_entropy > 0 || measures_gate_sums(config, options))
    return;
  for (const char* name : {"--calibration", "--calibration-tokens", "--calibration-window",
                           "--key-rope", "--key-bias"})
    PENSTOCK_CHECK(command.count(name) == 0, name, " is for Router Upcycling; scorer '",
                   router.scorer, "' reads no text: leave it out");
}

/// Options that would change nothing, or say two things at once.
void check_options_matter(const CLI::App& command, const UpcycleOptions& options) {
  PENSTOCK_CHECK(command.count("--scale") == 0 || options.granularity > 1,
                 "--scale is for shards; give --granularity above 1, or leave it out");
  PENSTOCK_CHECK(command.count("--k") == 0 || !options.router_options.find("k"),
                 "--k and --set model.router.k say the same thing; give one");
}

void print_groups(const UpcycleReport& report) {
  for (std::size_t l = 0; l < report.groups.size(); ++l) {
    const HeadGroups& groups = report.groups[l];
    fmt::print("\nlayer {}: heads by the likeness of their mean keys{}\n", l,
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

/// What the doctor reads: the text that calibrated the model, or nothing of its own.
std::string doctor_text(const std::string& calibration) {
  if (calibration.empty()) return "";
  return (std::filesystem::is_directory(calibration) ? " --data " : " --text ") +
         shell_quoted(calibration);
}

/// How a model begins whose gates need not sum to one.
void print_gates(const UpcycleOptions& options, const UpcycleReport& report) {
  if (!measures_gate_sums(report.config, options)) return;
  const auto [least, most] = std::ranges::minmax_element(report.gate_sums);
  if (resolve(report.config.router).traits.gates == GateForm::relu)
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

void run_upcycle(const CLI::App& command, const UpcycleArguments& arguments) {
  const EndOnSignal guard("interrupted; what was not finished is removed",
                          {temporary_path(arguments.out)});
  ops::set_threads(static_cast<int>(arguments.threads));
  check_can_make(arguments.out);
  UpcycleOptions options = options_of(arguments);
  check_options_matter(command, options);
  const std::string directory = model_argument(arguments.dense).path;
  const auto parent = open_model_source(directory);
  options = with_start(options);
  check_calibration_is_read(command, options, parent->config());
  const UpcycleReport report = upcycle(*parent, options, real_file_system(), arguments.out);
  const ModelConfig& config = report.config;
  const ParameterCensus census = count_parameters(config);
  if (!report.groups.empty()) {
    fmt::print("keys: means over {} tokens of {}{}\n", grouped(report.calibration_tokens),
               options.calibration,
               report.calibration_tokens < kFewTokens ? "; so few say little: give more text" : "");
    print_groups(report);
    fmt::print("\n");
  }
  fmt::print("{}: {} layers of {} experts (f={}), k={:g}, method {}, scorer {}\n", arguments.out,
             config.moe_layers(), config.total_experts(), config.expert_width(),
             config.active_experts(), config.router.method, resolve(config.router).scorer);
  fmt::print("parameters: {} total, {} active, {} of routers; {} MiB\n", grouped(census.total),
             grouped(census.active), grouped(census.router), report.bytes >> 20);
  if (options.granularity > 1)
    fmt::print("shards: {} of each feed-forward, results scaled by a = {:g} ({})\n",
               options.granularity, report.shard_scale, arguments.scale);
  for (std::size_t l = 0; l < report.logit_scales.size(); ++l)
    fmt::print("layer {}: logits times {:.4g}; entropy {:.3f} to {:.3f} nats\n", l,
               report.logit_scales[l].factor, report.logit_scales[l].entropy_before,
               options.start_entropy);
  print_gates(options, report);
  if (report.lr_scale != 1)
    fmt::print("routers learn at {:g} times the learning rate\n", report.lr_scale);
  if (!report.without_tokenizer.empty())
    fmt::print("no tokenizer was copied: {}\n", report.without_tokenizer);
  fmt::print("check it with: penstock doctor {} --dense {}{}\n", shell_quoted(arguments.out),
             shell_quoted(arguments.dense), doctor_text(options.calibration));
}

void add_router_options(CLI::App& command, UpcycleArguments& a) {
  UpcycleOptions& o = a.options;
  command
      .add_option("--method", o.method,
                  "vanilla, switch, locmoe, mlp, router-upcycling, remoe; any of `penstock "
                  "routers`")
      ->capture_default_str();
  command.add_option("--scorer", o.scorer,
                     "another scorer under the method's selection: a scorer, or the method that "
                     "it is of (--method remoe --scorer router-upcycling)");
  command.add_option("--experts", o.experts, "experts, before granularity")
      ->capture_default_str()
      ->check(whole_number(2));
  command.add_option("--k", a.k, "active experts of a token; default 2, of switch 1");
  command
      .add_option(
          "--start", a.start,
          "parent: where a softmax makes the gates of more than one expert, they sum to one and "
          "logits made of attention heads are scaled to 0.87 of an even choice's entropy, so that "
          "training begins where the parent is; ReLU gates are scaled to sum to one in the mean "
          "over --calibration, which is near the parent; one expert of a softmax begins as "
          "published, and a line says so. published: as the method's paper has them")
      ->capture_default_str()
      ->check(CLI::IsMember({"parent", "published"}));
  command.add_flag("--renormalise", o.renormalise,
                   "gates of a token's experts sum to one, with --start published too");
  command.add_option("--routers", o.routers, "Router Upcycling: m; default as experts")
      ->check(whole_number(1));
  command
      .add_option("--keys", o.keys,
                  "Router Upcycling: keys of all experts; default the larger of both")
      ->check(whole_number(1));
  command.add_option("--pool", o.pool, "Router Upcycling: sum or max over the routers")
      ->check(CLI::IsMember({"sum", "max"}));
  command.add_option("--calibration", o.calibration,
                     "text that keys are means over: a corpus directory, or a text file for the "
                     "model's own tokenizer");
  command.add_option("--calibration-tokens", o.calibration_tokens, "at most so many of its tokens")
      ->capture_default_str()
      ->check(whole_number(1));
  command
      .add_option("--calibration-window", o.calibration_window,
                  "tokens that attention sees at once; default the context, at most 512")
      ->check(whole_number(1));
  command.add_option("--key-rope", a.key_rope, "keys before or after rotary positions: pre, post")
      ->capture_default_str()
      ->check(CLI::IsMember({"pre", "post"}));
  command.add_option("--key-bias", a.key_bias, "keep or drop the key projection's bias")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "drop"}));
  command.add_option("--query-bias", a.query_bias, "keep or drop the query projection's bias")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "drop"}));
}

void add_control_options(CLI::App& command, UpcycleArguments& a) {
  command
      .add_option("--start-entropy", a.options.start_entropy,
                  "scale each router's logits so that its softmax over the experts has this mean "
                  "entropy in nats over --calibration; 0: as --start says")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--router-form", a.router_form,
                  "factored: train query maps and keys; collapsed: the one matrix that they "
                  "fold into")
      ->capture_default_str()
      ->check(CLI::IsMember({"factored", "collapsed"}));
  command.add_flag("--match-logits", a.options.match_logits,
                   "a random linear router, scaled to the logits that Router Upcycling would have");
  command.add_option("--lr-scale", a.lr_scale,
                     "factor of the routers' learning rate; `match`: by which Router Upcycling's "
                     "one matrix moves faster");
}

void add_expert_options(CLI::App& command, UpcycleArguments& a) {
  UpcycleOptions& o = a.options;
  command
      .add_option("--granularity", o.granularity,
                  "G: each feed-forward in G shards, chosen together at first")
      ->capture_default_str()
      ->check(whole_number(1, 4096));
  command
      .add_option("--scale", a.scale,
                  "shards make up for their gates: published (cube root on all three matrices), "
                  "exact (square root on up and down), none")
      ->capture_default_str()
      ->check(CLI::IsMember({"published", "exact", "none"}));
  command.add_option("--noise", o.noise, "standard deviation of noise on each expert's weights")
      ->capture_default_str();
  command.add_option("--shared-expert", a.shared,
                     "an expert for every token: its width (it adds nothing at first), or `copy`");
  command.add_option("--dtype", o.dtype, "f32, f16 or bf16; default the parent's; routers are f32")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
}

}  // namespace

void add_upcycle_command(CLI::App& app) {
  auto arguments = std::make_shared<UpcycleArguments>();
  CLI::App* command = app.add_subcommand("upcycle", "An MoE from a dense model");
  command->add_option("DENSE", arguments->dense, "dense model or run directory")->required();
  command->add_option("--out", arguments->out, "directory to make")
      ->required()
      ->transform(output_path());
  add_router_options(*command, *arguments);
  add_expert_options(*command, *arguments);
  add_control_options(*command, *arguments);
  command->add_option("--seed", arguments->seed, "of random routers and noise")
      ->capture_default_str()
      ->check(whole_number(0));
  command
      ->add_option("--set", arguments->overrides, "--set model.router.load-balance.coefficient=0")
      ->expected(1)
      ->take_all();
  command->add_option("--threads", arguments->threads, "0: the physical cores")
      ->check(whole_number(0, kMostThreads));
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
