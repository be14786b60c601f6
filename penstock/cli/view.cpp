// penstock view DIR: a run or a study in a browser.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/results_endpoints.h"
#include "penstock/cli/serving.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct ViewArguments {
  ServingArguments serving;
  bool without_model = false;
};

bool is_run(const fs::path& directory) { return fs::exists(directory / "metrics.jsonl"); }
bool has_checkpoints(const fs::path& directory) { return fs::exists(directory / "checkpoints"); }

/// A folder in `runs` of the directory, "" if there is none. With `of_study` only one that a study
/// made, whose name says the seed.
std::string run_in(const fs::path& directory, bool of_study) {
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(directory / "runs", unreadable))
    if (of_study ? entry.path().filename().string().find("-seed-") != std::string::npos
                 : is_run(entry.path()))
      return entry.path().string();
  return "";
}

/// Throws Error for the directory of neither a run nor a study. A study that still trains its first
/// run has no results.json.
void check_run_or_study(const std::string& directory) {
  if (is_run(directory) || fs::exists(fs::path(directory) / "results.json") ||
      !run_in(directory, /*of_study=*/true).empty())
    return;
  const std::string run = run_in(directory, /*of_study=*/false);
  fail(directory, ": is neither a run nor a study; ",
       run.empty() ? "`penstock serve` takes models" : "view one of its runs, such as " + run);
}

/// Throws Error if there is no model that the option could be for.
void check_has_model(const ViewArguments& arguments, const std::string& option) {
  if (arguments.without_model) throw CLI::ExcludesError("--without-model", option);
  const std::string& directory = arguments.serving.model;
  if (has_checkpoints(directory)) return;
  const std::string run = run_in(directory, /*of_study=*/true);
  fail(directory, ": has no model of its own for ", option, "; leave it out",
       run.empty() ? "" : ", or view one of its runs, such as " + run);
}

/// The run's models. There are none for a study, or if the user wants none. If they cannot be
/// served, the reason is printed and there are none.
ServedModels models_of(const ViewArguments& arguments) {
  if (arguments.without_model || !has_checkpoints(arguments.serving.model)) return {};
  try {
    return load_served(arguments.serving);
  } catch (const Error& error) {
    print_line(stderr, fmt::format("without the model: {}", error.what()));
    return {};
  }
}

int run_view(ViewArguments arguments) {
  ServingArguments& serving = arguments.serving;
  ops::set_threads(static_cast<int>(serving.threads));
  ServedModels served = models_of(arguments);
  served.endpoints.merge(results_endpoints(serving.model));
  if (served.models.empty()) served.endpoints["/"] = served.endpoints.at("/runs");
  serve::Api api(served.models,
                 {.hosts = own_names(serving.http.host), .endpoints = std::move(served.endpoints)});
  serve::HttpServer server(api, serving.http);
  fmt::print("{} at {}\n", serving.model, address_of(server, serving.http.host));
  std::fflush(stdout);
  serve_until_signal(served.models, server, serving.grace);
  return 0;
}

}  // namespace

void add_view_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ViewArguments>();
  CLI::App* command = app.add_subcommand(
      "view", "Show a run or a study in a browser: curves, report and a run's model");
  command->add_option("DIR", arguments->serving.model, "directory of a run or of a study")
      ->required();
  add_port_options(*command, arguments->serving);
  command->add_flag("--without-model", arguments->without_model, "show only curves and report");
  const auto without_models = command->get_options();
  add_model_options(*command, arguments->serving);
  command->footer(
      "Examples:\n"
      "  penstock view studies/demo\n"
      "  penstock view runs/remoe --data corpora/system --port 0\n"
      "A run or a study may still be training: its curves are redrawn every two seconds. Only this "
      "machine can open the page.");
  command->callback([arguments, command, without_models, &exit_code] {
    check_run_or_study(arguments->serving.model);
    for (const CLI::Option* option : command->get_options())
      if (option->count() > 0 && std::ranges::count(without_models, option) == 0)
        check_has_model(*arguments, option->get_name());
    exit_code = run_view(*arguments);
  });
}

}  // namespace penstock
