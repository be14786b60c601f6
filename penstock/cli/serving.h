// The code that `penstock serve` and `penstock view` share: options, loading of models, and the
// server from its start to a signal.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/serve/api.h"
#include "penstock/serve/http_server.h"

namespace penstock {

struct ServingArguments {
  std::string model, name, chat_template, data;
  std::vector<std::string> beside;
  bool folded = false, exact = false;
  std::int64_t threads = 0, grace = 10;
  serve::ServiceOptions service;
  serve::HttpOptions http;
};

/// Adds the options of every server: the port, threads and connections.
void add_port_options(CLI::App& command, ServingArguments& arguments);
/// Adds the options of models: further models, the folded form, a corpus, chats, lengths and
/// numbers of texts.
void add_model_options(CLI::App& command, ServingArguments& arguments);

/// The served models, and the further answers that come with them (/v1/corpus).
struct ServedModels {
  std::vector<serve::ServedModel> models;
  std::map<std::string, std::function<serve::Reply()>> places;
};

/// Reads the models. With a corpus, makes one pass over it and prints the progress on stderr.
/// Throws Error for two models of the same name and for a corpus of another tokenizer.
ServedModels load_served(const ServingArguments& arguments);

/// The host names that requests to a server may use if the server is only for this machine.
std::vector<std::string> own_names(const std::string& host);

/// The server's address.
std::string address_of(const serve::HttpServer& server, const std::string& host);

/// Waits for a signal, then gives running answers up to `grace` seconds to end.
void serve_until_signal(const std::vector<serve::ServedModel>& models, serve::HttpServer& server,
                        std::int64_t grace);

}  // namespace penstock
