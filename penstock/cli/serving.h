// The code that serving commands share: loading of models, and the server from its start to a
// signal. serving_options.h has their options.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/cli/serving_options.h"
#include "penstock/serve/api.h"
#include "penstock/serve/http_server.h"

namespace penstock {

/// The served models, and the additional endpoints that come with them (/v1/corpus).
struct ServedModels {
  std::vector<serve::ServedModel> models;
  std::map<std::string, std::function<serve::Reply()>> endpoints;
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
