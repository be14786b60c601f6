// The options that serving commands share.
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

}  // namespace penstock
