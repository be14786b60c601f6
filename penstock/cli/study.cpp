// `penstock study`: variants × seeds, a table and a report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/broken_pipe.h"
#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_list.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/cli/processes/launch_processes.h"
#include "penstock/cli/processes/ranks.h"
#include "penstock/cli/results_endpoints.h"
#include "penstock/cli/serving.h"
#include "penstock/cli/study_arguments.h"
#include "penstock/cli/study_jobs.h"
#include "penstock/dist/transport.h"
#include "penstock/report/report.h"
#include "penstock/study/config/chosen_pairs.h"
#include "penstock/study/config/study_fields.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_groups.h"
#include "penstock/study/runs/run_plan.h"
#include "penstock/study/study_runner.h"
#include "penstock/train/ranks/agreement.h"

namespace penstock {
namespace {

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

std::string interrupted_line(const GivenStudy& given) {
  return "interrupted; the state is saved. Continue with: " + given.how.command +
         (given.how.report_only ? " --report-only" : "");
}

study::StudyHooks hooks_of(const StudyArguments& options, const GivenStudy& given,
                           const study::RunRanks& ranks) {
  study::StudyHooks hooks = study::training_hooks(given.how.progress, options.force, ranks);
  hooks.write_pages = report::write_study_pages;
  hooks.write_run_page = [](const std::string& directory) { report::write_report(directory); };
  hooks.measure = [measure = hooks.measure, line = interrupted_line(given)](
                      const auto& one, const auto& run, const study::Work& work) {
    std::optional<EndOnSignal> guard;  // a training ends by itself, and saves its state
    if (!work.trains) guard.emplace(line);
    return measure(one, run, work);
  };
  return hooks;
}

/// Serves the study's curves to a browser while the study runs.
struct LivePage {
  serve::Api api;
  serve::HttpServer server;

  LivePage(const std::string& output, const serve::HttpOptions& http)
      : api({}, {.hosts = own_names(http.host), .endpoints = endpoints_of(output)}),
        server(api, http) {
    print_line(stderr, "curves at " + address_of(server, http.host));
  }

 private:
  static std::map<std::string, std::function<serve::Reply()>> endpoints_of(
      const std::string& output) {
    auto out = results_endpoints(output);
    out["/"] = out.at("/runs");
    return out;
  }
};

std::unique_ptr<LivePage> live_page(const StudyArguments& options, const std::string& output) {
  if (!options.port) return nullptr;
  return std::make_unique<LivePage>(output, serve::HttpOptions{.port = *options.port});
}

/// "10 of 12 runs finished, 1 diverged, 1 left out". Diverged runs add a line.
std::string counted_runs(const study::StudyOutcome& outcome, std::size_t width) {
  const auto& results = outcome.results;
  const std::string out =
      fmt::format("{} of {} runs finished", results.rows.size(), results.planned_runs);
  if (results.diverged.empty()) return out + "; ";
  const std::string left_out =
      outcome.left_out > 0
          ? fmt::format(", {} left out because {} one that diverged", outcome.left_out,
                        outcome.left_out == 1 ? "it needs" : "they need")
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

/// Runs the study and prints its results. Returns the exit code.
int finish(const StudyArguments& options, const GivenStudy& given, const study::StudyHooks& hooks) {
  check_can_make(given.how.output);
  check_can_write(given.how.kept_rows);
  const auto page = live_page(options, given.how.output);
  const auto outcome = study::run_study(given.config, given.how, hooks);
  if (given.how.only) return outcome.interrupted ? 130 : 0;
  if (options.json)
    fmt::print("{}\n", json_text(study::to_json(outcome.results)));
  else
    print_outcome(outcome, given.config.trains(), given.how.output, options.wide);
  if (!outcome.interrupted) return 0;
  std::fprintf(stderr, "%s\n", interrupted_line(given).c_str());
  return 130;
}

int run_in_one_process(const StudyArguments& options) {
  const GivenStudy given = given_study(options);
  study::StudyHooks hooks = hooks_of(options, given, {});
  if (options.jobs > 1)
    hooks.train_side_by_side = [&](const std::vector<study::RunToTrain>& runs,
                                   const study::SideBySide& study) {
      return train_side_by_side({.jobs = options.jobs,
                                 .command = command_of_run(options, given.how.output),
                                 .progress = given.how.progress},
                                runs, study);
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
  hooks.train_side_by_side = [&](const auto& runs, const auto& study) {
    return groups.train(runs, study);
  };
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
  ignore_broken_pipes();  // a study goes on without the reader of its messages
  const dist::Identity identity = dist::identity_from(dist::process_environment());
  check_one_launcher(options.processes, identity);
  if (identity.launched)
    options.processes = identity.size;  // the command that continues the study names them
  if (identity.size > 1)
    return exit_code_of_rank(identity, [&] { return run_as_rank(options, identity); });
  return options.processes > 1 ? launch(options) : run_in_one_process(options);
}

std::vector<FieldDescription> keys_of_a_study() {
  std::vector<FieldDescription> out = describe_config<study::StudyFields>();
  const auto add = [&](const std::vector<FieldDescription>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  add(describe_config<study::PairFields>("pairs."));
  add(describe_config<study::VariantFields>("variants.VARIANT."));
  add(describe_config<study::ScaleFields>("scale.SCALE."));
  add(describe_config<study::RecipeChanges>("scale.SCALE.variants.VARIANT."));
  add(describe_config<study::ClosedForm>("closed_form.NAME."));
  add(describe_config<study::ClosedCell>("closed_form.NAME.cells."));
  return out;
}

}  // namespace

void add_study_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<StudyArguments>();
  CLI::App* command =
      app.add_subcommand("study", "Train variants over several seeds and compare them");
  add_study_options(*command, *options);
  command->callback([options, &exit_code] {
    if (options->keys) return print_fields(keys_of_a_study());
    if (options->study.empty()) throw CLI::RequiredError("STUDY");
    exit_code = run(*options);
  });
}

}  // namespace penstock
