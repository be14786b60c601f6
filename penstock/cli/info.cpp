// `penstock info`: the sizes and costs of a recipe or a model, without training it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/info/figures.h"
#include "penstock/cli/info/finetuning.h"
#include "penstock/cli/info/layouts.h"
#include "penstock/cli/info/recipe_of_target.h"
#include "penstock/cli/info/study.h"
#include "penstock/convert/export/export_choice.h"
#include "penstock/finetune/run_record.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/open_model.h"
#include "penstock/train/layouts/parallel_settings.h"

namespace penstock {
namespace {

/// Options that --ranks takes with it.
constexpr const char *kMemory = "--memory", *kLayouts = "--layouts";

struct InfoOptions {
  std::string target, scale;
  std::vector<std::string> overrides;
  bool json = false;
  MachineSpeeds speeds;
  LayoutQuestion layouts;
};

/// Adds what is to be known of the figures: the recipe's notes, and a vocabulary that was assumed.
void add_notes(nlohmann::ordered_json& figures, const Recipe& recipe, bool assumed) {
  if (!recipe.notes.empty()) figures["notes"] = recipe.notes;
  if (assumed) figures["assumed_vocabulary"] = kAssumedVocabulary;
}

/// The same for people.
void print_notes(const Recipe& recipe, bool assumed) {
  for (const auto& note : recipe.notes) fmt::print("note: {}\n", note);
  if (assumed) print_assumed_vocabulary();
}

/// Answers `--ranks`.
void answer_layouts(const Recipe& recipe, const InfoOptions& options, bool assumed) {
  if (!options.json) {
    print_layouts(recipe, options.layouts, options.speeds);
    return print_notes(recipe, assumed);
  }
  auto out = layouts_json(recipe, options.layouts, options.speeds);
  add_notes(out, recipe, assumed);
  fmt::print("{}\n", json_text(out, 2));
}

void print_info(const InfoOptions& options) {
  const LayoutQuestion& layouts = options.layouts;
  Recipe recipe;
  bool assumed = false;
  if (std::filesystem::is_directory(options.target) || is_model_file(options.target)) {
    PENSTOCK_CHECK(options.scale.empty(), options.target, ": --scale is for studies");
    PENSTOCK_CHECK(options.overrides.empty(), options.target,
                   ": --set changes a recipe, not a model that exists");
    PENSTOCK_CHECK(layouts.ranks == 0, options.target,
                   ": --ranks is for recipes, which say what a step is");
    recipe = recipe_of_model(options.target);
  } else {
    ConfigNode node = read_toml(options.target);
    PENSTOCK_CHECK(!node.table().empty() || !options.overrides.empty(), options.target,
                   ": sets no key, so the figures would be those of the defaults alone; give a "
                   "recipe (`penstock train --template METHOD` prints one)");
    for (const char* of_studies : {"variants", "like", "report"})
      if (node.find(of_studies)) {
        PENSTOCK_CHECK(layouts.ranks == 0, options.target,
                       ": a study's runs are of one process; --ranks is for recipes");
        return print_study({options.target, options.overrides, options.scale}, options.json);
      }
    PENSTOCK_CHECK(options.scale.empty(), options.target, ": --scale is for studies");
    apply_overrides(node, options.overrides, kSetOption);
    ContentHashes hashes;
    CountableRecipe counted = countable(node, hashes);
    recipe = std::move(counted.recipe);
    assumed = counted.assumed;
    if (layouts.ranks > 0) return answer_layouts(recipe, options, assumed);
    layout_of(recipe, processes_of(recipe));
  }
  if (const auto lost = export_lost_by_training(recipe.model); !lost.empty())
    recipe.notes.push_back(lost);
  const bool finetuned =
      std::filesystem::is_directory(options.target) && is_finetuning(options.target);
  if (options.json) {
    auto figures = figures_json(recipe);
    if (finetuned) figures["finetuning"] = finetuning_json(options.target);
    add_notes(figures, recipe, assumed);
    if (auto parallel = parallel_json(recipe, options.speeds); !parallel.is_null())
      figures["parallel"] = std::move(parallel);
    fmt::print("{}\n", json_text(figures, 2));
    return;
  }
  print_figures(recipe, options.speeds);
  if (finetuned) print_finetuning(options.target);
  print_notes(recipe, assumed);
}

CLI::Option* add_number(CLI::App& command, const char* name, double& value, const char* help) {
  auto* const option = command.add_option(name, value, help)->check(positive_number());
  return value > 0 ? option->capture_default_str() : option;
}

/// The speeds that the estimate of a step of several processes uses.
void add_speeds(CLI::App& command, MachineSpeeds& speeds) {
  add_number(command, "--flops", speeds.flops,
             "useful FLOP/s of one process, for the estimated step time of several processes");
  add_number(command, "--bandwidth", speeds.bandwidth,
             "bytes/s that one process sends to another machine");
  add_number(command, "--latency", speeds.latency, "latency of a message, in seconds");
  add_number(
      command, "--node-bandwidth", speeds.node_bandwidth,
      "bytes/s that one process sends to another process on its machine; default --bandwidth");
  add_number(command, "--memory-bandwidth", speeds.memory_bandwidth,
             "bytes/s that one process reads from and writes to memory; default: memory traffic is "
             "not counted");
  add_number(command, "--exchange-cost", speeds.exchange_cost,
             "seconds of a compute core per byte sent and received; default: the exchange has its "
             "own cores");
  command
      .add_option("--rank-load", speeds.rank_load,
                  "rows that the busiest rank's experts compute, divided by the mean of all ranks: "
                  "rank_load.max in metrics.jsonl")
      ->check(real_number(1, 1e6))
      ->capture_default_str();
  command
      .add_option("--node-ranks", speeds.node_ranks,
                  "number of processes per machine; their ranks are consecutive")
      ->check(whole_number(1, 1 << 16))
      ->capture_default_str();
  command.add_flag("--shared-memory", speeds.shared_memory,
                   "processes share their machine's memory, as on CPUs: if all are on one machine, "
                   "they hold one copy of the weights that parallel.zero divides");
}

void add_layouts(CLI::App& command, LayoutQuestion& layouts) {
  command
      .add_option("--ranks", layouts.ranks,
                  "show the layouts with the shortest estimated step for this number of processes, "
                  "in place of the recipe's [parallel]")
      ->check(whole_number(1, 1 << 16));
  add_number(command, kMemory, layouts.memory, "memory of each process, in bytes; with --ranks");
  command.add_option(kLayouts, layouts.shown, "number of layouts shown; with --ranks")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
}

/// Throws Error if an option of --ranks is given without it.
void check_goes_with_ranks(const CLI::App& command, const LayoutQuestion& layouts) {
  for (const char* option : {kMemory, kLayouts})
    PENSTOCK_CHECK(layouts.ranks > 0 || command.count(option) == 0, option,
                   " is for the layouts of --ranks N; give that too");
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand(
      "info", "Count parameters, FLOPs and memory of a recipe, a model or a study's variants");
  command
      ->add_option("RECIPE", options->target,
                   concat("recipe or study (TOML), model (", kModelForms, ") or run directory"))
      ->required();
  add_overrides(*command, options->overrides, "override a key: --set model.moe.experts=16");
  command->add_option("--scale", options->scale, "scale of a study: paper, desk; default desk");
  add_json(*command, options->json);
  add_speeds(*command, options->speeds);
  add_layouts(*command, options->layouts);
  command->footer(
      "Examples:\n"
      "  penstock info recipes/remoe/remoe-182m.toml\n"
      "  penstock info recipes/demo/remoe.toml --set model.moe.granularity=4 --json\n"
      "  penstock info recipes/remoe/remoe-182m.toml --set parallel.data=8 --set "
      "parallel.expert=4\n"
      "  penstock info recipes/remoe/remoe-182m.toml --ranks 16 --memory 16e9 --bandwidth 3e9\n"
      "  penstock info recipes/demo/study.toml\n"
      "  penstock info table1.toml --scale paper");
  command->callback([options, command] {
    check_goes_with_ranks(*command, options->layouts);
    print_info(*options);
  });
}

}  // namespace penstock
