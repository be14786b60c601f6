// `penstock finetune`: text classification on a pretrained model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/broken_pipe.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/json_text.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_list.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/arguments/word_option.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/cli/processes/one_process.h"
#include "penstock/finetune/beats_guessing.h"
#include "penstock/finetune/run.h"
#include "penstock/finetune/test_result.h"
#include "penstock/io/toml.h"
#include "penstock/ops/dispatch.h"
#include "penstock/report/report.h"

namespace penstock {
namespace {

struct FinetuneOptions {
  std::string model, data, out, test_only;
  ClassificationFormat task = ClassificationFormat::kAuto;
  std::vector<std::string> overrides;
  std::vector<std::int64_t> k;
  std::int64_t threads = 0;
  bool resume = false, quiet = false, force = false, keys = false, json = false;
};

/// The accuracies by k, and below them the majority class's accuracy.
void print_test(const nlohmann::ordered_json& result) {
  fmt::print("{} on {}: {} test texts, {} classes, best step {}\n",
             result["task"].get<std::string>(), result["model"].get<std::string>(),
             grouped(result["test_texts"].get<std::int64_t>()), result["classes"].get<int>(),
             result["best_step"].get<std::int64_t>());
  fmt::print("{:<10} {:>9} {:>9} {:>9}\n", "k", "accuracy", "macro-F1", "loss");
  for (const auto& point : result["by_k"])
    fmt::print("{:<10} {:>7.2f} % {:>9.4f} {:>9.4f}\n",
               point["k"].is_null() ? "-" : point["k"].dump(),
               100 * point["accuracy"].get<double>(), point["macro_f1"].get<double>(),
               point["loss"].get<double>());
  fmt::print("{:<10} {:>7.2f} %\n", "majority", 100 * result["majority_accuracy"].get<double>());
  if (const std::string nothing = why_nothing_was_learnt(result); !nothing.empty())
    fmt::print("note: {}\n", nothing);
}

void print_result(const nlohmann::ordered_json& result, bool json) {
  if (json)
    fmt::print("{}\n", json_text(result, 2));
  else
    print_test(result);
}

void run_test_only(const FinetuneOptions& options) {
  const EndOnSignal guard(kNothingWritten);
  print_result(finetune_test(options.test_only, {.data = options.data, .k = options.k}),
               options.json);
}

FinetuneRecord record_of(const FinetuneOptions& options) {
  ConfigNode settings;
  apply_overrides(settings, options.overrides, kSetOption);
  if (!options.k.empty()) {
    PENSTOCK_CHECK(settings.empty() || !settings.find("test_k"), "--k and ", kSetOption,
                   " test_k say the same thing; give one");
    const std::vector<std::string> of_k{fmt::format("test_k=[{}]", fmt::join(options.k, ","))};
    apply_overrides(settings, of_k, kSetOption);
  }
  return {.model = model_argument(options.model).path,
          .data = options.data,
          .task = options.task,
          .finetune = read_finetune_config(settings)};
}

void run_finetune(const FinetuneOptions& options, int& exit_code) {
  check_one_process("finetune");
  ignore_broken_pipes();  // a run goes on without the reader of its messages
  check_can_make(options.out);
  const RunOutcome outcome =
      finetune_run(record_of(options), options.out,
                   {.resume = options.resume, .quiet = options.quiet, .force = options.force});
  if (outcome == RunOutcome::finished) {
    report::write_report(options.out);
    print_result(
        nlohmann::ordered_json::parse(real_file_system().read(options.out + "/" + kFinetuneResult)),
        options.json);
    return;
  }
  std::string command = "penstock finetune " + shell_quoted(options.model) + " --data " +
                        shell_quoted(options.data) + " --task " + std::string(word(options.task));
  for (const auto& set : options.overrides) command += " --set " + shell_quoted(set);
  if (!options.k.empty()) command += fmt::format(" --k {}", fmt::join(options.k, ","));
  if (options.threads > 0) command += fmt::format(" --threads {}", options.threads);
  if (options.force) command += " --force";
  // fmt::print would throw where stderr cannot be written, although the state is saved.
  std::fprintf(stderr, "interrupted. Continue with: %s --out %s --resume\n", command.c_str(),
               shell_quoted(options.out).c_str());
  exit_code = 130;
}

}  // namespace

void add_finetune_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<FinetuneOptions>();
  CLI::App* command = app.add_subcommand(
      "finetune", "Train a pretrained model to classify texts, and test it at each k");
  auto* model = command->add_option("MODEL", options->model,
                                    "model directory, or run directory (its best checkpoint)");
  auto* data =
      command->add_option("--data", options->data, "data set: its folder, archive or file");
  add_word_option(*command, "--task", options->task,
                  "format of the data set: sst2, sst5, imdb, banking77 or auto")
      ->default_str(std::string(word(options->task)));
  auto* out = command->add_option("--out", options->out, "run directory")->transform(output_path());
  add_overrides(*command, options->overrides, "override a key: --set epochs=1");
  one_value_each(
      command
          ->add_option(
              "--k", options->k,
              "experts per token in the test, such as 1,2,4; default: powers of two and all")
          ->delimiter(',')
          ->check(whole_number(1)));
  auto* test_only =
      command->add_option("--test-only", options->test_only,
                          "test the best checkpoint of this run directory again; trains nothing");
  add_threads(*command, options->threads);
  command->add_flag("--resume", options->resume,
                    "continue the run in the run directory, or start a new one");
  command->add_flag("--quiet", options->quiet, "print no progress");
  command->add_flag("--force", options->force, "train even if memory seems too small");
  add_json(*command, options->json, "print the result as one JSON object");
  command->add_flag("--keys", options->keys, "list every key of --set with its default");
  command->footer(
      "Examples:\n"
      "  penstock finetune runs/hyperrouter --data sst2 --out runs/sst2\n"
      "  penstock finetune runs/remoe --data banking77 --set epochs=20 --set lr=3e-4 --out "
      "runs/b77\n"
      "  penstock finetune runs/hyperrouter --data sst2 --set protocol=authors --out runs/authors\n"
      "  penstock finetune --test-only runs/sst2 --k 1,2,4,8,16 --json\n"
      "The best checkpoint is chosen on held-out texts; the test set is read once, at the end.\n"
      "A run directory holds config.toml, metrics.jsonl, TensorBoard events, "
      "checkpoints/step-N/, finetune.json\nand report.html. Ctrl-C saves a checkpoint; --resume "
      "continues bitwise. docs/finetune.md has the protocols.");
  command->callback([=, &exit_code] {
    if (options->keys) return print_fields(describe_config<FinetuneConfig>());
    ops::set_threads(static_cast<int>(options->threads));
    if (test_only->count() > 0) {
      for (const char* other : {"MODEL", "--out", kSetOption, "--task", "--resume", "--force"})
        if (command->get_option(other)->count() > 0) throw CLI::ExcludesError("--test-only", other);
      return run_test_only(*options);
    }
    for (const auto* needed : {model, data, out})
      if (needed->count() == 0) throw CLI::RequiredError(needed->get_name());
    run_finetune(*options, exit_code);
  });
}

}  // namespace penstock
