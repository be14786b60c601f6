// An api with two small models and without a network, and a client's view of its answers, for the
// tests of api.h.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/models/make_model.h"
#include "penstock/serve/api.h"
#include "tests/infer/support.h"

namespace penstock::serve::api_test {

using nlohmann::json;
using namespace std::chrono_literals;

inline std::shared_ptr<const Tokenizer> bytes() { return make_tokenizer("bytes", {}); }

inline std::shared_ptr<LanguageModel> tiny_model(const std::string& method = "topk") {
  ModelConfig config = testing::tiny(method);
  config.vocab = bytes()->vocab_size();
  auto model = make_model(config, 21);
  model->eval();
  return model;
}

/// Two services, their api, and the calls of a client.
struct Server {
  std::shared_ptr<LanguageModel> model = tiny_model(), beside = tiny_model("remoe");
  std::shared_ptr<Service> of_model, of_beside;
  Service& service;
  Api api;

  explicit Server(ServiceOptions options = usual(), ApiOptions api_options = {},
                  std::optional<ChatForm> form = ChatForm::plain)
      : of_model(std::make_shared<Service>(model, bytes(), options)),
        of_beside(std::make_shared<Service>(beside, bytes(), options)),
        service(*of_model),
        api({{.name = "tiny", .service = of_model, .chat_form = form, .no_chat = "no template"},
             {.name = "other", .service = of_beside, .no_chat = "no template"}},
            std::move(api_options)) {}
  static ServiceOptions usual() {
    return {.batcher = {.reader = {.sequences = 4, .kept = 2, .capacity = 60000}}, .queue = 8};
  }

  Reply ask(const std::string& path, const std::string& body) {
    return api.answer(
        {.method = "POST", .path = path, .body = body, .content_type = "application/json"});
  }
  Reply get(const std::string& path) { return api.answer({.method = "GET", .path = path}); }
  bool settles(std::int64_t running) {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(10ms)) {
      const ServiceState now = service.state();
      if (now.running == running && now.waiting == 0) return true;
    }
    return false;
  }
};

inline std::string all_of(Reply& reply) {
  if (!reply.stream) return reply.body;
  std::string out;
  while (reply.stream->next(out, 100ms)) {
  }
  if (!reply.as_it_comes) reply.status = reply.stream->status();
  return out;
}

inline json answer(Server& server, const std::string& path, const std::string& body,
                   int status = 200) {
  Reply reply = server.ask(path, body);
  const std::string text = all_of(reply);
  EXPECT_EQ(reply.status, status) << text;
  return json::parse(text);
}

/// The JSON objects of a stream's events. Expects the stream to end correctly.
inline std::vector<json> events(const std::string& text) {
  std::vector<json> out;
  std::size_t at = 0;
  for (std::size_t end; (end = text.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string line = text.substr(at, end - at);
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    if (line != "data: [DONE]") out.push_back(json::parse(line.substr(6)));
  }
  EXPECT_EQ(at, text.size());
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
  return out;
}

}  // namespace penstock::serve::api_test
