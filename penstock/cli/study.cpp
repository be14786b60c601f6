#include "penstock/cli/study.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/base/threads.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_list.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/processes/launch_processes.h"
#include "penstock/cli/processes/ranks.h"
#include "penstock/cli/results_places.h"
#include "penstock/cli/serving.h"
#include "penstock/cli/study_jobs.h"
#include "penstock/dist/transport.h"
#include "penstock/report/report.h"
#include "penstock/study/config/study_fields.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_groups.h"
#include "penstock/study/runs/run_plan.h"
#include "penstock/study/study_runner.h"
#include "penstock/train/ranks/agreement.h"

namespace penstock {
namespace {

struct StudyArguments {
  std::string study, out, results, scale;
  std::vector<std::string> overrides;
  bool report_only = false, retry_diverged = false, wide = false;
  bool json = false, quiet = false, force = false, keys = false;
  int jobs = 1, processes = 0;
  std::string only;  // VARIANT:SEED
  std::string port;  // the port of --serve; "" without --serve
};

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

/// The command line of one run of the study. Its process shares the cores with the other runs.
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
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), number);
  PENSTOCK_CHECK(error == std::errc() && end == seed.data() + seed.size(), "--only ", text, ": '",
                 seed, "' is no seed");
  return study::RunKey{text.substr(0, colon), number};
}

/// "10 of 12 runs finished, 1 diverged, 1 left out". Diverged runs add a line.
std::string counted_runs(const study::StudyOutcome& outcome, std::size_t width) {
  const auto& results = outcome.results;
  const std::string out =
      fmt::format("{} of {} runs finished", results.rows.size(), results.planned_runs);
  if (results.diverged.empty()) return out + "; ";
  const std::string left_out =
      outcome.left_out > 0
          ? fmt::format(", {} left out because it needs one that diverged", outcome.left_out)
          : "";
  return report::wrapped(
      fmt::format(
          "{}, {} diverged{}.\nA diverged run is trained again when its settings change, or "
          "with --retry-diverged.",
          out, results.diverged.size(), left_out),
      width);
}

/// Prints a table that fits a terminal. Outside a terminal, and with --wide, it is complete.
void print_outcome(const study::StudyOutcome& outcome, bool trains, const std::string& output,
                   bool wide) {
  const std::size_t width = wide ? report::kAnyWidth : ProgressLine(stdout).columns();
  const std::string text = report::results_text(outcome.results, width);
  const bool whole = text == report::results_text(outcome.results);
  fmt::print("{}{}\n{}{}/results.json{}\n", text,
             whole ? "" : "\n--wide prints it for a terminal of any width\n",
             trains ? counted_runs(outcome, width) : "", output,
             outcome.results.empty() ? "" : ", " + output + "/report.html");
}

/// The study that the arguments name.
struct GivenStudy {
  study::StudyConfig config;
  study::StudyOptions how;
};

GivenStudy given_study(const StudyArguments& options) {
  GivenStudy out{.config = study::read_study(options.study, options.overrides, options.scale,
                                             read_toml, kSetOption),
                 .how = {.kept_rows = options.results,
                         .command = command_line(options),
                         .report_only = options.report_only,
                         .retry_diverged = options.retry_diverged,
                         .only = only_run(options.only),
                         .progress = options.quiet ? nullptr : stderr}};
  out.how.output = options.out.empty() ? study::default_output(out.config) : options.out;
  return out;
}

study::StudyHooks hooks_of(const StudyArguments& options, const GivenStudy& given,
                           const study::RunRanks& ranks) {
  study::StudyHooks hooks = study::training_hooks(given.how.progress, options.force, ranks);
  hooks.write_pages = report::write_study_pages;
  hooks.write_run_page = [](const std::string& directory) { report::write_report(directory); };
  return hooks;
}

/// Serves the study's curves to a browser while the study runs.
struct LivePage {
  serve::Api api;
  serve::HttpServer server;

  LivePage(const std::string& output, const serve::HttpOptions& http)
      : api({}, {.hosts = own_names(http.host), .places = places_of(output)}), server(api, http) {
    print_line(stderr, "curves at " + address_of(server, http.host));
  }

 private:
  static std::map<std::string, std::function<serve::Reply()>> places_of(const std::string& output) {
    auto out = results_places(output);
    out["/"] = out.at("/runs");
    return out;
  }
};

std::unique_ptr<LivePage> live_page(const StudyArguments& options, const std::string& output) {
  if (options.port.empty()) return nullptr;
  int port = 0;
  const char* const end = options.port.data() + options.port.size();
  const auto [read, error] = std::from_chars(options.port.data(), end, port);
  PENSTOCK_CHECK(error == std::errc() && read == end && port >= 0 && port < 65536, "--serve ",
                 options.port, ": is no port from 0 to 65535");
  return std::make_unique<LivePage>(output, serve::HttpOptions{.port = port});
}

/// Runs the study and prints its results. Returns the exit code.
int finish(const StudyArguments& options, const GivenStudy& given, const study::StudyHooks& hooks) {
  check_can_make(given.how.output);
  check_can_write(given.how.kept_rows);
  const auto page = live_page(options, given.how.output);
  const auto outcome = study::run_study(given.config, given.how, hooks);
  if (given.how.only) return outcome.interrupted ? 130 : 0;
  if (options.json)
    fmt::print("{}\n", study::to_json(outcome.results).dump());
  else
    print_outcome(outcome, given.config.trains(), given.how.output, options.wide);
  if (!outcome.interrupted) return 0;
  std::fprintf(stderr, "interrupted; the state is saved. Continue with: %s\n",
               given.how.command.c_str());
  return 130;
}

int run_in_one_process(const StudyArguments& options) {
  const GivenStudy given = given_study(options);
  study::StudyHooks hooks = hooks_of(options, given, {});
  if (options.jobs > 1)
    hooks.train_side_by_side = [&](const std::vector<study::RunToTrain>& runs) {
      return train_side_by_side({.jobs = options.jobs,
                                 .command = command_of_run(options, given.how.output),
                                 .progress = given.how.progress},
                                runs);
    };
  return finish(options, given, hooks);
}

/// Rank 0 runs the study, and all ranks train its runs.
int run_as_rank(const StudyArguments& options, const dist::Identity& identity) {
  PENSTOCK_CHECK(options.jobs == 1, "--jobs beside ", identity.source,
                 ": this is one of several processes, which train the runs; leave --jobs away");
  const auto world = join_ranks(identity, study::kWaitForGroups, options.quiet);
  const GivenStudy given = on_all_ranks(world, [&] { return given_study(options); });
  study::RunGroups groups(given.config, given.how, options.force, world, identity.local_size);
  if (identity.rank > 0) {
    const bool finished = groups.follow();
    world.leave();
    return finished ? 0 : 130;
  }
  study::StudyHooks hooks =
      hooks_of(options, given, {.most = identity.size, .here = identity.local_size});
  hooks.train_side_by_side = [&](const auto& runs) { return groups.train(runs); };
  try {
    const int code = finish(options, given, hooks);
    groups.release();
    world.leave();
    return code;
  } catch (const dist::LostRank&) {
    throw;
  } catch (...) {
    if (groups.release()) world.leave();
    throw;
  }
}

/// Checks the study before it starts the processes, so that a mistake is reported once.
int launch(const StudyArguments& options) {
  check_each_can_read(options.study, options.processes, "study");
  dist::check_transport(options.processes);
  const GivenStudy given = given_study(options);
  check_can_make(given.how.output);
  const auto hooks = study::training_hooks(nullptr, options.force);
  for (const auto& variant : given.config.variants)
    hooks.resolve(study::with_seed(variant, given.config.seeds[0]));
  return launch_processes(
      options.processes,
      {.when = [] { return std::string("while the study was carried out"); },
       .goes_on = [] { return std::string("the same command goes on with what is missing"); }});
}

int run(StudyArguments options) {
  const dist::Identity identity = dist::identity_from(dist::process_environment());
  PENSTOCK_CHECK(options.processes == 0 || identity.size == 1, "--processes beside ",
                 identity.source,
                 ": this is one of several processes already; leave one of the two away");
  if (identity.launched)
    options.processes = identity.size;  // the command that continues the study names them
  if (identity.size > 1)
    return exit_code_of_rank(identity, [&] { return run_as_rank(options, identity); });
  return options.processes > 1 ? launch(options) : run_in_one_process(options);
}

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

std::vector<FieldDescription> keys_of_a_study() {
  std::vector<FieldDescription> out = describe_config<study::StudyFields>();
  const auto add = [&](const std::vector<FieldDescription>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  add(describe_config<study::VariantFields>("variants.VARIANT."));
  add(describe_config<study::ScaleFields>("scale.SCALE."));
  add(describe_config<study::RecipeChanges>("scale.SCALE.variants.VARIANT."));
  add(describe_config<study::ClosedForm>("closed_form.NAME."));
  add(describe_config<study::ClosedCell>("closed_form.NAME.cells."));
  return out;
}

/// The options of the study's file and its places.
void add_study(CLI::App& command, StudyArguments& options) {
  command.add_option("STUDY", options.study, "study (TOML)");
  command.add_option("--out", options.out,
                     "output directory; default studies/<the study's name>[-<scale>]");
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
  command.add_flag("--report-only", options.report_only,
                   "train nothing; measure and report the finished runs");
  command.add_flag("--retry-diverged", options.retry_diverged,
                   "train diverged runs (loss not finite) again from their last good step");
  auto* jobs =
      command
          .add_option(
              "--jobs", options.jobs,
              "number of runs trained at the same time, which share the cores (run.threads)")
          ->check(CLI::Range(1, 4096));
  command
      .add_option("--processes", options.processes,
                  "number of processes on this machine: each run uses as many as its [parallel] "
                  "names, and such groups of processes run at the same time (docs/cluster.md)")
      ->check(CLI::Range(1, 4096))
      ->excludes(jobs);
  command.add_option("--only", options.only,
                     "VARIANT:SEED: train only that run; no measurement, no report");
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
      ->default_str("8080");
  command.add_flag("--wide", options.wide, "print every column, even if the terminal is narrower");
  add_json(command, options.json, "print the object of results.json instead of the table");
  command.add_flag(
      "--keys", options.keys,
      "list the keys of a study file with their defaults, without the measurements' keys");
  command.add_flag("--quiet", options.quiet, "print no progress");
}

}  // namespace

void add_study_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<StudyArguments>();
  CLI::App* command =
      app.add_subcommand("study", "Train variants over several seeds and compare them");
  add_study(*command, *options);
  add_training(*command, *options);
  add_display(*command, *options);
  command->footer(std::string(kStudyExamples) + kStudyFile);
  command->callback([options, &exit_code] {
    if (options->keys) return print_fields(keys_of_a_study());
    if (options->study.empty()) throw CLI::RequiredError("STUDY");
    exit_code = run(*options);
  });
}

}  // namespace penstock
