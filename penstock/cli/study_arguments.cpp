#include "penstock/cli/study_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/parse_number.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/base/threads.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/whole_number.h"

namespace penstock {
namespace {

constexpr const char* kStudyExamples =
    "Examples:\n"
    "  penstock study recipes/demo/study.toml --set data.corpus=corpus\n"
    "  penstock study long.toml --results long-rows.json    a long study, in parts\n"
    "  penstock study recipes/demo/study.toml --report-only\n"
    "  penstock study long.toml --jobs 4                     four runs at a time\n"
    "  penstock study table1.toml --scale paper             the published settings\n"
    "  penstock study big.toml --set parallel.tensor=2 --processes 4   two runs at a time, of "
    "two\n"
    "The same command continues a study: finished runs are kept, interrupted runs resume.\n"
    "A run whose loss is not finite is recorded as diverged, and the other runs go on. It is\n"
    "trained again when its settings change, or with --retry-diverged.\n"
    "Exit status: 0 if every run finished, diverged or depends on a diverged run; 130 after\n"
    "Ctrl-C; 1 for an error.\n";

constexpr const char* kStudyFile =
    "A study file:\n"
    "  name = \"demo\"                        base = \"remoe.toml\"     seeds = [1, 2, 3]\n"
    "  [set]                                for every variant\n"
    "  train.steps = 400\n"
    "  [variants.topk]\n"
    "  label = \"top-1\"\n"
    "  recipe = \"topk.toml\"                 instead of base\n"
    "  set = {\"model.router.k\" = 1}         for this variant\n"
    "  match_compute = \"remoe\"              as many steps as that variant's FLOPs allow\n"
    "  published = {k1 = 1.48, k2 = 1.30}   numbers of a paper, shown beneath\n"
    "and, before the tables:\n"
    "  eval_k = [1, 2, 4, 8, 16]            measure finished runs by experts per token\n"
    "  eval_checkpoint = \"best\"             instead of \"final\"\n"
    "  reference = \"topk\"                   differences are from this variant, by pairs of "
    "seeds\n"
    "  pairs = [[\"remoe\", \"topk\"]]          also these differences, first minus second\n"
    "                                       or of groups' means: pairs = [{label = \"...\",\n"
    "                                       first = [...], second = [...]}]\n"
    "  measure = \"perplexity\"               instead of \"bits_per_byte\"\n"
    "  baseline = {name = \"5-gram\", ngram = 5}   counted; no order unless all beat it\n"
    "  report = [\"entropy\", \"samples\"]      of the runs' routers; also \"token-experts\",\n"
    "                                       \"flips\", \"throughput\"; \"settings\" and\n"
    "                                       \"closed-forms\" train nothing\n"
    "  like = \"table1.toml\"                 the variants, scales and runs of that study\n"
    "  [finetune.sst2]                      fine-tune every finished run: data, task, set\n"
    "  [closed_form.A3]                     FLOPs or parameters of the variants, without a run\n"
    "  [scale.desk]                         laid over the study: set, seeds, only, eval_k,\n"
    "  set = {\"train.steps\" = 400}          claim, baseline, and [scale.desk.variants.NAME] "
    "set\n"
    "                                       = {...}";

/// The options of the study's file and its places.
void add_study(CLI::App& command, StudyArguments& options) {
  command.add_option("STUDY", options.study, "study (TOML)");
  command
      .add_option("--out", options.out,
                  "output directory; default studies/<the study's name>[-<scale>]")
      ->transform(output_path());
  command.add_option("--scale", options.scale,
                     "one of the study's scales, such as paper or desk; default desk");
  command.add_option("--results", options.results,
                     "file that keeps finished rows between calls; created if absent");
  add_overrides(command, options.overrides,
                "override a key of every recipe: --set train.steps=100, or of a fine-tuning: "
                "--set finetune.sst2.data=DIR");
}

/// The options of which runs are trained, and how many at once.
void add_training(CLI::App& command, StudyArguments& options) {
  auto* report_only = command.add_flag("--report-only", options.report_only,
                                       "train nothing; measure and report the finished runs");
  command.add_flag("--retry-diverged", options.retry_diverged,
                   "train diverged runs (loss not finite) again from their last good step");
  auto* jobs =
      command
          .add_option(
              "--jobs", options.jobs,
              "number of runs trained at the same time, which share the cores (run.threads)")
          ->check(whole_number(1, 4096));
  command
      .add_option("--processes", options.processes,
                  "number of processes on this machine: each run uses as many as its [parallel] "
                  "names, and such groups of processes run at the same time (docs/cluster.md)")
      ->check(whole_number(1, 4096))
      ->excludes(jobs);
  command
      .add_option("--only", options.only,
                  "VARIANT:SEED: train only that run; no measurement, no report")
      ->excludes(report_only);
  command.add_flag(
      "--force", options.force,
      "train even if memory seems too small, and upcycle even if memory or disk seems too small");
}

void add_display(CLI::App& command, StudyArguments& options) {
  command
      .add_option("--serve", options.port,
                  "show the curves in a browser while the study runs, at this port of this "
                  "machine; 0: any free port")
      ->expected(0, 1)
      ->check(whole_number(0, 65535))
      ->default_str("8080");
  command.add_flag("--wide", options.wide, "print every column, even if the terminal is narrower");
  add_json(command, options.json, "print the object of results.json instead of the table");
  command.add_flag(
      "--keys", options.keys,
      "list the keys of a study file with their defaults, without the measurements' keys");
  command.add_flag("--quiet", options.quiet, "print no progress");
}

}  // namespace

void add_study_options(CLI::App& command, StudyArguments& options) {
  add_study(command, options);
  add_training(command, options);
  add_display(command, options);
  command.footer(std::string(kStudyExamples) + kStudyFile);
}

std::string command_line(const StudyArguments& options) {
  std::string out = "penstock study " + shell_quoted(options.study);
  if (!options.scale.empty()) out += " --scale " + shell_quoted(options.scale);
  for (const auto& set : options.overrides) out += " --set " + shell_quoted(set);
  if (!options.out.empty()) out += " --out " + shell_quoted(options.out);
  if (options.retry_diverged) out += " --retry-diverged";
  if (options.force) out += " --force";
  if (options.jobs > 1) out += " --jobs " + std::to_string(options.jobs);
  if (options.processes > 1) out += " --processes " + std::to_string(options.processes);
  if (!options.results.empty()) out += " --results " + shell_quoted(options.results);
  return out;
}

std::vector<std::string> command_of_run(const StudyArguments& options, const std::string& output) {
  std::vector<std::string> out = {"penstock", "study", options.study, "--out", output, "--quiet"};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {name, value});
  };
  add("--scale", options.scale);
  add("--results", options.results);
  add(kSetOption, concat("run.threads=", std::max(1, physical_cores() / options.jobs)));
  for (const auto& set : options.overrides) add(kSetOption, set);  // these come last and override
  if (options.retry_diverged) out.emplace_back("--retry-diverged");
  if (options.force) out.emplace_back("--force");
  return out;
}

std::optional<study::RunKey> only_run(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto colon = text.rfind(':');
  PENSTOCK_CHECK(colon != std::string::npos, "--only ", text, ": write VARIANT:SEED");
  const std::string seed = text.substr(colon + 1);
  const auto number = parse_number<std::int64_t>(seed);
  PENSTOCK_CHECK(number, "--only ", text, ": '", seed, "' is no seed");
  return study::RunKey{text.substr(0, colon), *number};
}

}  // namespace penstock
