#include "penstock/cli/serve.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <tuple>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/cli/model_argument.h"
#include "penstock/cli/whole_number.h"
#include "penstock/infer/pass_reader.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/serve/api.h"
#include "penstock/serve/http_server.h"
#include "penstock/train/interrupt.h"

namespace penstock {
namespace {

struct ServeArguments {
  std::string model, name, chat_template, key, key_file;
  serve::HttpOptions http;
  serve::ServiceOptions service;
  std::int64_t threads = 0, timeout = 600, grace = 10;
  bool exact = false;
  bool open = false;  // to other machines, without a key
};

/// The key of --api-key, of --api-key-file or of the environment; "" where there is none.
std::string key_of(const ServeArguments& arguments) {
  std::string key = arguments.key;
  if (!key.empty()) return key;
  if (!arguments.key_file.empty()) {
    key = real_file_system().read(arguments.key_file, 4096);
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
    PENSTOCK_CHECK(!key.empty(), arguments.key_file, ": is empty; a key has a character or more");
  } else if (const char* given = std::getenv("PENSTOCK_API_KEY")) {
    key = given;
  }
  return key;
}

/// The form of chats, and why there is none.
void choose_chat_form(const ServeArguments& arguments, const std::string& path,
                      serve::ApiOptions& api) {
  constexpr const char* kForms = "chatml, llama2, llama3, zephyr or plain";
  if (!arguments.chat_template.empty()) {
    api.chat_form = serve::chat_form_named(arguments.chat_template);
    PENSTOCK_CHECK(api.chat_form, "there is no chat template '", arguments.chat_template,
                   "'; give --chat-template ", kForms);
    return;
  }
  const std::string text = serve::chat_template_of(path);
  if (!text.empty()) api.chat_form = serve::recognise_chat_form(text);
  api.no_chat = fmt::format(
      "{}: start the server with --chat-template NAME, one of {}, or ask /v1/completions",
      text.empty() ? "the model comes without a chat template"
                   : "the model's chat template is none of the known ones",
      kForms);
}

/// Names by which a server for this machine alone may be asked.
std::vector<std::string> own_names(const std::string& host) {
  return {"localhost", "127.0.0.1", "[::1]", host};
}

/// Answers until a signal comes; then lets what is under way end.
void run_server(serve::Service& service, serve::HttpServer& server,
                const ServeArguments& arguments) {
  const InterruptGuard guard;
  while (guard.signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  fmt::print(stderr, "stopping: answers under way have {} s to end\n", arguments.grace);
  service.stop(std::chrono::seconds(arguments.grace));
  server.stop();
}

void check_host(const ServeArguments& arguments, const std::string& key) {
  PENSTOCK_CHECK(serve::is_loopback(arguments.http.host) || !key.empty() || arguments.open, "host ",
                 arguments.http.host,
                 " lets other machines ask: give a key (--api-key KEY, --api-key-file FILE or "
                 "PENSTOCK_API_KEY), "
                 "or say "
                 "--without-key where everybody may");
}

int run_serve(ServeArguments arguments) {
  const std::string key = key_of(arguments);
  check_host(arguments, key);
  ops::set_threads(static_cast<int>(arguments.threads));
  const auto [path, tokenizer,
              model] = with_model(arguments.model, [&](const ModelArgument& chosen) {
    const std::shared_ptr<const ModelSource> source = open_model_source(chosen.path);
    return std::tuple(
        chosen.path, source->tokenizer(),
        load_for_inference(source, arguments.exact ? Weights::in_place : Weights::in_place_int8));
  });
  serve::ApiOptions api_options{.model = arguments.name, .api_key = key};
  if (api_options.model.empty())
    api_options.model = std::filesystem::path(arguments.model).lexically_normal().stem().string();
  choose_chat_form(arguments, path, api_options);
  api_options.timeout = std::chrono::seconds(arguments.timeout);
  if (key.empty() && serve::is_loopback(arguments.http.host))
    api_options.hosts = own_names(arguments.http.host);
  const std::string alone = one_at_a_time(*model);
  serve::Service service(model, tokenizer, arguments.service);
  serve::Api api(service, api_options);
  serve::HttpServer server(api, arguments.http);
  const bool six = arguments.http.host.find(':') != std::string::npos;
  fmt::print("{} at http://{}{}{}:{}/\n", api_options.model, six ? "[" : "", arguments.http.host,
             six ? "]" : "", server.port());
  if (!alone.empty()) fmt::print("one text at a time: {}\n", alone);
  std::fflush(stdout);
  run_server(service, server, arguments);
  return 0;
}

void add_limits(CLI::App& command, ServeArguments& arguments) {
  BatcherOptions& batcher = arguments.service.batcher;
  command.add_option("--sequences", batcher.reader.places, "texts that are written at a time")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command
      .add_option("--kept", batcher.reader.kept,
                  "texts besides whose keys and values are kept for prompts that begin alike")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  command
      .add_option("--context", batcher.reader.capacity,
                  "most tokens of a text with its prompt; at most the model's own context")
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option("--prompt-tokens", batcher.prompt_tokens,
                  "tokens of prompts that are read beside a token of every other text")
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  command
      .add_option("--queue", arguments.service.queue, "texts that may wait; more are refused (429)")
      ->check(whole_number(1, 100000))
      ->capture_default_str();
  command.add_option("--body-bytes", arguments.http.limits.body_bytes, "most of a request (413)")
      ->check(whole_number(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--connections", arguments.http.connections, "that are served at a time")
      ->check(whole_number(1, 10000))
      ->capture_default_str();
  command.add_option("--timeout", arguments.timeout, "seconds that an answer may take")
      ->check(whole_number(1, 1000000))
      ->capture_default_str();
  command
      .add_option("--grace", arguments.grace,
                  "seconds that answers under way have once a signal has come")
      ->check(whole_number(0, 1000000))
      ->capture_default_str();
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve a model over HTTP, as OpenAI's interface has it");
  command
      ->add_option("MODEL", arguments->model,
                   "model of any format, or run directory (its best checkpoint)")
      ->required();
  command->add_option("--host", arguments->http.host, "address to listen at")
      ->capture_default_str();
  command->add_option("--port", arguments->http.port, "0: any that is free")
      ->check(whole_number(0, 65535))
      ->capture_default_str();
  CLI::Option* const key =
      command->add_option("--api-key", arguments->key,
                          "that clients must send; other users see it in lists of processes");
  command
      ->add_option("--api-key-file", arguments->key_file,
                   "file with that key; the environment's PENSTOCK_API_KEY does the same")
      ->excludes(key);
  command->add_flag("--without-key", arguments->open, "let other machines ask without a key");
  command->add_option("--name", arguments->name,
                      "of the model in requests and answers; by default MODEL's own");
  command->add_option("--chat-template", arguments->chat_template,
                      "form of chats: chatml, llama2, llama3, zephyr or plain; by default the one "
                      "that the model's template is");
  add_limits(*command, *arguments);
  command->add_flag("--exact", arguments->exact, "as `penstock generate --exact`");
  command->add_option("--threads", arguments->threads, "0: the physical cores")
      ->check(whole_number(0, kMostThreads));
  command->footer(
      "Examples:\n"
      "  penstock serve runs/remoe\n"
      "  curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' \\\n"
      "      -d '{\"prompt\": \"Once upon a time\", \"max_tokens\": 50}'\n"
      "http://127.0.0.1:8080/ is a page to try it. docs/serve.md says more.");
  command->callback([arguments, &exit_code] { exit_code = run_serve(*arguments); });
}

}  // namespace penstock
