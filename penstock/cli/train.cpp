#include "penstock/cli/train.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "penstock/cli/shell_quoted.h"
#include "penstock/io/toml.h"
#include "penstock/study/report.h"
#include "penstock/study/text_samples.h"
#include "penstock/train/recipe.h"
#include "penstock/train/run.h"

namespace penstock {
namespace {

struct TrainOptions {
  std::string recipe, out;
  std::vector<std::string> overrides;
  bool resume = false, quiet = false, keys = false;
};

void print_keys() {
  for (const auto& field : describe_config<Recipe>())
    fmt::print("{:<28} {:<7} {:<12} {}{}\n", field.path, field.type,
               field.default_value.empty() ? "-" : field.default_value, field.help,
               field.range.empty() ? "" : " (" + field.range + ")");
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a model from a recipe");
  auto* recipe = command->add_option("RECIPE", options->recipe, "recipe (TOML)");
  command->add_option("--set", options->overrides, "override a key: --set train.steps=100")
      ->expected(1)
      ->take_all();
  command->add_option("--out", options->out, "run directory; default runs/<recipe's file name>");
  command->add_flag("--resume", options->resume, "continue the run in the directory, or start it");
  command->add_flag("--quiet", options->quiet, "no progress");
  command->add_flag("--keys", options->keys, "list every key of a recipe with its default");
  command->footer(
      "Examples:\n"
      "  penstock train recipes/demo/remoe.toml --set data.corpus=corpus --out runs/remoe\n"
      "  penstock train recipes/demo/remoe.toml --set data.corpus=corpus --out runs/remoe "
      "--resume\n"
      "  penstock train recipes/demo/topk.toml --set model.router.k=2 --set train.steps=500\n"
      "A run directory holds config.toml, metrics.jsonl, TensorBoard events, checkpoints/step-N/,\n"
      "finished.json and report.html. Ctrl-C saves a checkpoint; --resume continues bitwise.");
  command->callback([options, recipe, &exit_code] {
    if (options->keys) return print_keys();
    if (recipe->count() == 0) throw CLI::RequiredError("RECIPE");
    ConfigNode node = read_toml(options->recipe);
    apply_overrides(node, options->overrides);
    const std::string out = options->out.empty()
                                ? "runs/" + std::filesystem::path(options->recipe).stem().string()
                                : options->out;
    const RunOutcome outcome =
        train_run(node, out, {.resume = options->resume, .quiet = options->quiet});
    if (outcome == RunOutcome::finished && read_recipe(node).run.report) {
      study::write_text_samples(out);
      write_run_report(out);
    }
    if (outcome == RunOutcome::interrupted) {
      std::string command = "penstock train " + shell_quoted(options->recipe);
      for (const auto& set : options->overrides) command += " --set " + shell_quoted(set);
      // Not fmt::print, which throws where stderr cannot be written: the state is saved.
      std::fprintf(stderr, "interrupted. Continue with: %s --out %s --resume\n", command.c_str(),
                   shell_quoted(out).c_str());
      exit_code = 130;
    }
  });
}

}  // namespace penstock
