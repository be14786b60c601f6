// penstock view DIR: a run or a study in a browser.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

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

/// The run's models. There are none for a study, or if the user wants none. If they cannot be
/// served, the reason is printed and there are none.
ServedModels models_of(const ViewArguments& arguments) {
  const fs::path directory(arguments.serving.model);
  if (arguments.without_model || !fs::exists(directory / "checkpoints")) return {};
  try {
    return load_served(arguments.serving);
  } catch (const Error& error) {
    print_line(stderr, fmt::format("without the model: {}", error.what()));
    return {};
  }
}

int run_view(ViewArguments arguments) {
  ServingArguments& serving = arguments.serving;
  const fs::path directory(serving.model);
  PENSTOCK_CHECK(fs::exists(directory / "metrics.jsonl") ||
                     fs::exists(directory / "results.json") || fs::is_directory(directory / "runs"),
                 serving.model, ": is neither a run nor a study; `penstock serve` takes models");
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
  add_model_options(*command, arguments->serving);
  command->footer(
      "Examples:\n"
      "  penstock view studies/demo\n"
      "  penstock view runs/remoe --data corpora/system --port 0\n"
      "A run or a study may still be training: its curves are redrawn every two seconds. Only this "
      "machine can open the page.");
  command->callback([arguments, &exit_code] { exit_code = run_view(*arguments); });
}

}  // namespace penstock
