// `penstock serve`: a model over HTTP.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/joined.h"
#include "penstock/base/loopback.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/serving.h"
#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

struct ServeArguments {
  ServingArguments serving;
  std::string key, key_file;
  std::int64_t timeout = 600;
  bool open = false;  // serve other machines without a key
};

/// The key from --api-key, from --api-key-file or from the environment; "" where none is given.
/// Throws Error for an empty key of the file or the environment, with which anybody could ask.
std::string key_of(const ServeArguments& arguments) {
  const auto checked = [](std::string key, const std::string& place) {
    PENSTOCK_CHECK(!key.empty(), place, ": is empty; a key has a character or more");
    return key;
  };
  if (!arguments.key.empty()) return arguments.key;
  if (!arguments.key_file.empty()) {
    std::string key = real_file_system().read(arguments.key_file, 4096);
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
    return checked(std::move(key), arguments.key_file);
  }
  const char* const given = std::getenv("PENSTOCK_API_KEY");
  return given ? checked(given, "PENSTOCK_API_KEY") : "";
}

void check_host(const ServeArguments& arguments, const std::string& key) {
  const std::string& host = arguments.serving.http.host;
  PENSTOCK_CHECK(is_loopback(host) || !key.empty() || arguments.open, "host ", host,
                 " lets other machines ask: give a key (--api-key KEY, --api-key-file FILE or "
                 "PENSTOCK_API_KEY), or say --without-key where everybody may");
}

int run_serve(const ServeArguments& arguments) {
  const ServingArguments& serving = arguments.serving;
  const std::string key = key_of(arguments);
  check_host(arguments, key);
  ops::set_threads(static_cast<int>(serving.threads));
  ServedModels served = load_served(serving);
  serve::ApiOptions options{.api_key = key,
                            .endpoints = std::move(served.endpoints),
                            .timeout = std::chrono::seconds(arguments.timeout)};
  if (key.empty() && is_loopback(serving.http.host)) options.hosts = own_names(serving.http.host);
  serve::Api api(served.models, std::move(options));
  serve::HttpServer server(api, serving.http);
  fmt::print("{} at {}\n", joined(served.models, ", ", &serve::ServedModel::name),
             address_of(server, serving.http.host));
  std::fflush(stdout);
  serve_until_signal(served.models, server, serving.grace);
  return 0;
}

void add_limits(CLI::App& command, ServeArguments& arguments) {
  command
      .add_option("--body-bytes", arguments.serving.http.limits.body_bytes,
                  "largest size of a request, in bytes (413 above)")
      ->check(whole_number(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--timeout", arguments.timeout, "longest time for an answer, in seconds")
      ->check(whole_number(1, 1000000))
      ->capture_default_str();
  command
      .add_option("--grace", arguments.serving.grace,
                  "seconds that answers in progress have after a signal")
      ->check(whole_number(0, 1000000))
      ->capture_default_str();
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP with OpenAI's API");
  command
      ->add_option("MODEL", arguments->serving.model,
                   "model of any format, or run directory (its best checkpoint)")
      ->required();
  command->add_option("--host", arguments->serving.http.host, "address to listen on")
      ->capture_default_str();
  add_port_options(*command, arguments->serving);
  CLI::Option* const key =
      command->add_option("--api-key", arguments->key,
                          "key that clients must send; other users can see it in process lists");
  command
      ->add_option(
          "--api-key-file", arguments->key_file,
          "file with the API key; the environment variable PENSTOCK_API_KEY can also give the key")
      ->excludes(key);
  command->add_flag("--without-key", arguments->open,
                    "allow requests from other machines without a key");
  add_model_options(*command, arguments->serving);
  add_limits(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  penstock serve runs/remoe\n"
      "  penstock serve runs/hyperrouter --folded --data corpus\n"
      "  curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' \\\n"
      "      -d '{\"prompt\": \"Once upon a time\", \"max_tokens\": 50}'\n"
      "http://127.0.0.1:8080/ is a page to try it. docs/serve.md says more.");
  command->callback([arguments, &exit_code] { exit_code = run_serve(*arguments); });
}

}  // namespace penstock
