// `penstock train`: one run from a recipe.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "penstock/base/atomic_files.h"
#include "penstock/base/broken_pipe.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_list.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/default_run.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/cli/processes/launch_processes.h"
#include "penstock/cli/processes/ranks.h"
#include "penstock/dist/transport.h"
#include "penstock/io/toml.h"
#include "penstock/report/report.h"
#include "penstock/study/tables/text_samples.h"
#include "penstock/train/check_is_recipe.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/recipe_template.h"
#include "penstock/train/run.h"

namespace penstock {
namespace {

struct TrainOptions {
  std::string recipe, out, method;
  std::vector<std::string> overrides;
  bool resume = false, quiet = false, force = false, keys = false;
  int processes = 0;
};

/// The run directory: --out, or the folder of a run's own config.toml that is to be resumed, or the
/// recipe's default.
std::string run_directory(const TrainOptions& options) {
  if (!options.out.empty()) return options.out;
  const std::filesystem::path recipe = options.recipe, folder = parent_directory(recipe);
  const bool of_a_run =
      recipe.filename() == "config.toml" && (std::filesystem::exists(folder / "metrics.jsonl") ||
                                             std::filesystem::exists(folder / "checkpoints"));
  return options.resume && of_a_run ? folder.string() : default_run(options.recipe);
}

/// Writes to a file, which must not exist yet, or to standard output.
void write_template(const TrainOptions& options) {
  const std::string text = recipe_template(options.method);
  if (options.out.empty()) {
    fmt::print("{}", text);
    return;
  }
  PENSTOCK_CHECK(!std::filesystem::exists(options.out), options.out,
                 ": is there already; name another --out for the template");
  check_can_write(options.out);
  write_file_atomically(real_file_system(), options.out, text);
  print_line(stderr, fmt::format("{}: set data.corpus in it, then: penstock train {}", options.out,
                                 shell_quoted(options.out)));
}

/// Checks the recipe before it starts the processes, so that a mistake is reported once.
int launch(const TrainOptions& options, const ConfigNode& node, const std::string& out) {
  check_each_can_read(options.recipe, options.processes, "recipe");
  dist::check_transport(options.processes);
  layout_of(read_recipe(node), options.processes);
  check_can_make(out);
  return launch_processes(options.processes, launched_run(out));
}

std::string continuing_command(const TrainOptions& options, const std::string& out,
                               const dist::Identity& identity) {
  std::string command = "penstock train " + shell_quoted(options.recipe);
  for (const auto& set : options.overrides) command += " --set " + shell_quoted(set);
  if (options.force) command += " --force";
  if (identity.launched) command += " --processes " + std::to_string(identity.size);
  return command + " --out " + shell_quoted(out) + " --resume";
}

/// Writes the finished run's samples and its page.
/// @param command  the command that writes them if a signal ends this
void write_pages_of(const std::string& out, const std::string& command) {
  const EndOnSignal guard(
      "interrupted; the run is finished and saved, without its samples.json and report.html. "
      "Write them with: " +
      command);
  study::write_text_samples(out);
  report::write_run_report(out);
}

/// Runs this process's part of the training and returns its exit code.
int train_here(const TrainOptions& options, const ConfigNode& node, const std::string& out,
               const dist::Identity& identity) {
  const bool first = identity.rank == 0;
  const std::chrono::seconds timeout(read_config<Recipe>(node).parallel.timeout);
  if (first) check_can_make(out);
  const auto group = join_ranks(identity, timeout, options.quiet);
  const RunOutcome outcome = train_run(node, out,
                                       {.resume = options.resume,
                                        .quiet = options.quiet,
                                        .force = options.force,
                                        .group = group,
                                        .processes_here = identity.local_size});
  group.leave();
  if (first && outcome == RunOutcome::finished && read_recipe(node).run.report)
    write_pages_of(out, continuing_command(options, out, identity));
  if (outcome == RunOutcome::finished) return 0;
  // fmt::print would throw where stderr cannot be written, although the state is saved.
  if (first)
    std::fprintf(stderr, "interrupted. Continue with: %s\n",
                 continuing_command(options, out, identity).c_str());
  return 130;
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a model from a recipe");
  auto* recipe = command->add_option("RECIPE", options->recipe, "recipe (TOML)");
  add_overrides(*command, options->overrides, "override a key: --set train.steps=100");
  command
      ->add_option("--out", options->out,
                   "run directory; default runs/<recipe's file name>, or with --resume of "
                   "RUN/config.toml that RUN; with --template: a file")
      ->transform(output_path());
  command->add_flag("--resume", options->resume,
                    "continue the run in the run directory, or start a new one");
  command
      ->add_option("--processes", options->processes,
                   "number of processes on this machine, which share each step's micro-batches "
                   "(docs/cluster.md)")
      ->check(whole_number(1, 4096));
  command->add_flag("--quiet", options->quiet, "print no progress");
  command->add_flag("--force", options->force, "train even if memory seems too small");
  command->add_flag("--keys", options->keys, "list every key of a recipe with its default");
  auto* method = command->add_option("--template", options->method,
                                     "print a commented recipe with every key for this method "
                                     "(`penstock routers`), or write it to --out; trains nothing");
  method->excludes(recipe)->excludes(command->get_option(kSetOption));
  command->footer(
      "Examples:\n"
      "  penstock train --template remoe --out my.toml\n"
      "  penstock train recipes/demo/remoe.toml --set data.corpus=corpus --out runs/remoe\n"
      "  penstock train recipes/demo/remoe.toml --set data.corpus=corpus --out runs/remoe "
      "--resume\n"
      "  penstock train recipes/demo/topk.toml --set model.router.k=2 --set train.steps=500\n"
      "  penstock train my.toml --set train.micro_batch=4 --processes 2\n"
      "A run directory holds config.toml, metrics.jsonl, TensorBoard events, checkpoints/step-N/,\n"
      "finished.json and report.html. Ctrl-C saves a checkpoint; --resume continues bitwise.");
  command->callback([options, recipe, method, &exit_code] {
    if (options->keys) return print_fields(describe_config<Recipe>());
    if (method->count() > 0) return write_template(*options);
    if (recipe->count() == 0) throw CLI::RequiredError("RECIPE");
    ignore_broken_pipes();  // a run goes on without the reader of its messages
    ConfigNode node = read_toml(options->recipe);
    check_is_recipe(node);
    apply_overrides(node, options->overrides, kSetOption);
    const std::string out = run_directory(*options);
    const dist::Identity identity = dist::identity_from(dist::process_environment());
    check_one_launcher(options->processes, identity);
    if (options->processes > 1) {
      exit_code = launch(*options, node, out);
      return;
    }
    exit_code =
        exit_code_of_rank(identity, [&] { return train_here(*options, node, out, identity); });
  });
}

}  // namespace penstock
