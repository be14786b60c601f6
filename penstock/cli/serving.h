// What `penstock serve` and `penstock view` share: which models are served and how, options and
// loading, and the server from its start to a signal.
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

/// Of every server: the port, threads and connections.
void add_port_options(CLI::App& command, ServingArguments& arguments);
/// Of models: others beside it, the folded form, a corpus, chats, lengths and numbers of texts.
void add_model_options(CLI::App& command, ServingArguments& arguments);

/// The models that are served, and the places that come with them (/v1/corpus).
struct ServedModels {
  std::vector<serve::ServedModel> models;
  std::map<std::string, std::function<serve::Reply()>> places;
};

/// Reads the models; with a corpus, one pass over it, which says on stderr how far it is.
/// Throws Error for two models of one name and for a corpus of another tokenizer.
ServedModels load_served(const ServingArguments& arguments);

/// Names by which a server for this machine alone may be asked.
std::vector<std::string> own_names(const std::string& host);

/// The server's address.
std::string address_of(const serve::HttpServer& server, const std::string& host);

/// Waits for a signal; then lets what is under way end.
void serve_until_signal(const std::vector<serve::ServedModel>& models, serve::HttpServer& server,
                        std::int64_t grace);

}  // namespace penstock
