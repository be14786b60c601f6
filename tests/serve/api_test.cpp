// What the server answers, without a network: texts, streams, limits, errors, several clients.
#include "penstock/serve/api.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/infer/generate.h"
#include "penstock/models/make_model.h"
#include "penstock/serve/page.h"
#include "tests/infer/support.h"

namespace penstock::serve {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

std::shared_ptr<const Tokenizer> bytes() { return make_tokenizer("bytes", {}); }

std::shared_ptr<LanguageModel> tiny_model(const std::string& method = "topk") {
  ModelConfig config = testing::tiny(method);
  config.vocab = bytes()->vocab_size();
  auto model = make_model(config, 21);
  model->eval();
  return model;
}

/// A service and its api; what a client gets of it.
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
    return {.batcher = {.reader = {.places = 4, .kept = 2, .capacity = 60000}}, .queue = 8};
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

std::string all_of(Reply& reply) {
  if (!reply.stream) return reply.body;
  std::string out;
  while (reply.stream->next(out, 100ms)) {
  }
  if (!reply.as_it_comes) reply.status = reply.stream->status();
  return out;
}

json answer(Server& server, const std::string& path, const std::string& body, int status = 200) {
  Reply reply = server.ask(path, body);
  const std::string text = all_of(reply);
  EXPECT_EQ(reply.status, status) << text;
  return json::parse(text);
}

/// The objects of a stream, which ends as it must.
std::vector<json> events(const std::string& text) {
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

Completion alone(Server& server, const std::string& prompt, const GenerateOptions& options) {
  return generate(server.model, *bytes(), {prompt}, options).completions[0];
}

TEST(Api, CompletionsAreThoseOfGenerate) {
  Server server;
  GenerateOptions options{.max_tokens = 20,
                          .sampling = {.temperature = 0.9, .top_p = 0.95, .seed = 7}};
  const json got = answer(server, "/v1/completions",
                          R"({"prompt": "the gate", "max_tokens": 20, "temperature": 0.9,
                              "top_p": 0.95, "seed": 7, "model": "tiny", "logprobs": 2})");
  const Completion expected = alone(server, "the gate", options);
  EXPECT_EQ(got["object"], "text_completion");
  EXPECT_EQ(got["model"], "tiny");
  EXPECT_EQ(got["choices"][0]["text"], expected.text);
  EXPECT_EQ(got["usage"]["prompt_tokens"], 8);
  EXPECT_EQ(got["usage"]["completion_tokens"], expected.tokens.size());
  EXPECT_EQ(got["choices"][0]["logprobs"]["tokens"].size(), expected.tokens.size());
  EXPECT_LE(got["choices"][0]["logprobs"]["token_logprobs"][0].get<double>(), 0);
}

TEST(Api, SeveralPromptsAndTextsHaveTheirPlaces) {
  Server server;
  const json got = answer(server, "/v1/completions",
                          R"({"prompt": ["abc", [100, 101]], "n": 2, "max_tokens": 6, "seed": 3})");
  ASSERT_EQ(got["choices"].size(), 4u);
  GenerateOptions options{.max_tokens = 6, .samples = 2, .sampling = {.temperature = 1, .seed = 3}};
  const auto expected = generate(server.model, *bytes(), {"abc", "de"}, options).completions;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got["choices"][i]["index"], i);
    EXPECT_EQ(got["choices"][i]["text"], expected[i].text);
  }
  EXPECT_EQ(got["usage"]["prompt_tokens"], 5);
}

TEST(Api, AStreamSaysWhatTheWholeAnswerSays) {
  Server server;
  const std::string body = R"({"prompt": "the gate", "max_tokens": 30, "seed": 5, "stop": "zq")";
  const json whole = answer(server, "/v1/completions", body + "}");
  Reply reply = server.ask(
      "/v1/completions", body + R"(, "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_EQ(reply.type, "text/event-stream");
  std::string text;
  json finish;
  const std::vector<json> got = events(all_of(reply));
  for (const json& event : got) {
    if (event["choices"].empty()) continue;
    text += event["choices"][0]["text"].get<std::string>();
    finish = event["choices"][0]["finish_reason"];
  }
  EXPECT_EQ(text, whole["choices"][0]["text"]);
  EXPECT_EQ(finish, whole["choices"][0]["finish_reason"]);
  EXPECT_EQ(got.back()["usage"], whole["usage"]);
}

TEST(Api, RoutingComesWithStreamedTokensAndByItself) {
  Server server;
  Reply reply = server.ask(
      "/v1/completions",
      R"({"prompt": "the gate", "max_tokens": 5, "seed": 5, "temperature": 0, "stream": true, "routing": true})");
  std::vector<TokenId> tokens = prompt_tokens(*bytes(), "the gate");
  std::vector<json> layers;
  for (const json& event : events(all_of(reply))) {
    if (!event.contains("routing")) continue;
    layers.push_back(event["routing"]["layers"]);
    tokens.push_back(event["routing"]["id"]);
  }
  const json traced = answer(server, "/v1/routing", json{{"input", tokens}}.dump());
  ASSERT_EQ(traced["layers"].size(), 2u);
  ASSERT_EQ(layers.size(), 5u);
  for (std::size_t token = 0; token < layers.size(); ++token)
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const json& expected =
          traced["layers"][layer]["experts"][7 + token];  // that of the one before
      ASSERT_EQ(layers[token][layer].size(), expected.size());
      EXPECT_EQ(layers[token][layer][0][0], expected[0][0]);
      EXPECT_NEAR(layers[token][layer][0][1].get<double>(), expected[0][1].get<double>(), 1e-4);
    }
}

TEST(Api, AnotherModelIsAskedByItsName) {
  Server server;
  const json got =
      answer(server, "/v1/completions",
             R"({"prompt": "the gate", "max_tokens": 9, "seed": 7, "model": "other"})");
  EXPECT_EQ(got["model"], "other");
  const GenerateOptions options{.max_tokens = 9, .sampling = {.temperature = 1, .seed = 7}};
  EXPECT_EQ(got["choices"][0]["text"],
            generate(server.beside, *bytes(), {"the gate"}, options).completions[0].text);
  const json models = json::parse(server.get("/v1/models").body)["data"];
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0]["id"], "tiny");
  EXPECT_TRUE(models[0]["takes_experts_per_token"] && !models[0]["takes_logit_shift"]);
  EXPECT_TRUE(!models[1]["takes_experts_per_token"] && models[1]["takes_logit_shift"]);
}

TEST(Api, ExpertsPerTokenAndTheShiftChangeTheRouting) {
  Server server;
  const auto experts = [&](const std::string& keys) {
    const json got = answer(server, "/v1/routing", R"({"input": "abcdefgh", )" + keys + "}");
    std::size_t sum = 0;
    for (const json& layer : got["layers"])
      for (const json& token : layer["experts"]) sum += token.size();
    return sum;
  };
  EXPECT_EQ(experts(R"("experts_per_token": 1)"), 16u);
  EXPECT_EQ(experts(R"("experts_per_token": 3)"), 48u);
  EXPECT_EQ(experts(R"("model": "other", "logit_shift": 1000)"), 64u);
  EXPECT_EQ(experts(R"("model": "other", "logit_shift": -1000)"), 0u);
  const auto refused = [&](const std::string& path, const std::string& own,
                           const std::string& key) {
    EXPECT_EQ(answer(server, path, "{" + own + "}", 400)["error"]["param"], key) << own;
  };
  for (const std::string keys :
       {R"("experts_per_token": 5)", R"("model": "other", "experts_per_token": 1)"}) {
    refused("/v1/completions", R"("prompt": "a", )" + keys, "experts_per_token");
    refused("/v1/routing", R"("input": "a", )" + keys, "experts_per_token");
  }
  refused("/v1/chat/completions",
          R"("messages": [{"role": "user", "content": "a"}], "logit_shift": 1)", "logit_shift");
}

TEST(Api, LogitsComeWhereTheyAreAskedFor) {
  Server server;
  Reply reply = server.ask(
      "/v1/completions",
      R"({"prompt": "abc", "max_tokens": 2, "temperature": 0, "stream": true, "routing": "logits"})");
  const auto got = events(all_of(reply));
  const json traced = answer(server, "/v1/routing", R"({"input": "abc", "routing": "logits"})");
  const json plain = answer(server, "/v1/routing", R"({"input": "abc"})");
  EXPECT_FALSE(plain["layers"][0].contains("logits"));
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const json& streamed = got[0]["routing"]["logits"][layer];
    const json& expected = traced["layers"][layer]["logits"][2];
    ASSERT_EQ(streamed.size(), 4u);
    for (std::size_t e = 0; e < 4; ++e)
      EXPECT_NEAR(streamed[e].get<double>(), expected[e].get<double>(), 1e-4);
  }
}

TEST(Api, OtherPlacesAreWhatTheyAreGivenAs) {
  ApiOptions options;
  options.places["/v1/corpus"] = [] { return Reply{.body = "{}"}; };
  Server server(Server::usual(), options);
  EXPECT_EQ(server.get("/v1/corpus").body, "{}");
  EXPECT_EQ(server.ask("/v1/corpus", "{}").status, 405);
  EXPECT_EQ(Server().get("/v1/corpus").status, 404);
}

TEST(Api, ChatsAreTextsOfTheirForm) {
  Server server;
  const std::string messages = R"({"messages": [{"role": "user", "content": "hi"}], "seed": 4,
      "max_tokens": 9, "logprobs": true, "top_logprobs": 1)";
  const json got = answer(server, "/v1/chat/completions", messages + "}");
  EXPECT_EQ(got["object"], "chat.completion");
  EXPECT_EQ(got["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(got["usage"]["prompt_tokens"], std::string("user: hi\n\nassistant:").size());
  EXPECT_EQ(got["choices"][0]["logprobs"]["content"].size(),
            got["usage"]["completion_tokens"].get<std::size_t>());
  Reply reply = server.ask("/v1/chat/completions", messages + R"(, "stream": true})");
  std::string text;
  const auto chunks = events(all_of(reply));
  EXPECT_EQ(chunks[0]["choices"][0]["delta"]["role"], "assistant");
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    text += chunk["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, got["choices"][0]["message"]["content"]);
}

TEST(Api, MistakesAreErrorObjects) {
  Server server(Server::usual(), {}, std::nullopt);
  const auto refused = [&](const std::string& path, const std::string& body, int status) {
    const json got = answer(server, path, body, status);
    EXPECT_FALSE(got["error"]["message"].get<std::string>().empty());
    return got["error"];
  };
  const std::string long_text(60001, 'a');
  refused("/v1/completions", "{", 400);
  EXPECT_EQ(refused("/v1/completions", R"({"prompt": "a", "model": "another"})", 404)["param"],
            "model");
  EXPECT_EQ(refused("/v1/completions", R"({"prompt": [99999]})", 400)["param"], "prompt");
  EXPECT_EQ(refused("/v1/completions", json{{"prompt", long_text}}.dump(), 400)["param"], "prompt");
  EXPECT_EQ(refused("/v1/routing", R"({"input": [99999]})", 400)["param"], "input");
  refused("/v1/nothing", "{}", 404);
  EXPECT_EQ(refused("/v1/routing", json{{"input", std::string(3000, 'a')}}.dump(), 400)["param"],
            "input");
  const json chat =
      refused("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}]})", 400);
  EXPECT_EQ(chat["message"], "no template");
  EXPECT_EQ(chat["param"], "messages");
  EXPECT_EQ(server.api.answer({.method = "POST", .path = "/v1/completions", .body = "{}"}).status,
            415);
  EXPECT_EQ(server.get("/").body, page);
  EXPECT_EQ(json::parse(server.get("/health").body)["running"], 0);
  const std::string metrics = server.get("/metrics").body;
  EXPECT_NE(metrics.find("penstock_requests_total{path=\"other\",status=\"404\"} 1"),
            std::string::npos)
      << metrics;
}

TEST(Api, OtherMethodsAreToldWhichThereIs) {
  Server server;
  const auto allowed = [&](const std::string& method, const std::string& path) {
    const Reply reply = server.api.answer({.method = method, .path = path});
    EXPECT_EQ(reply.status, 405);
    return reply.headers.at(0);
  };
  using Header = std::pair<std::string, std::string>;
  EXPECT_EQ(allowed("GET", "/v1/completions"), Header("Allow", "POST"));
  EXPECT_EQ(allowed("BREW", "/health"), Header("Allow", "GET, HEAD"));
  EXPECT_EQ(server.api.answer({.method = "BREW", .path = "/coffee"}).status, 404);
}

TEST(Api, WordsOfHeadersHaveNoCase) {
  ApiOptions options;
  options.hosts = {"localhost"};
  options.api_key = "Secret";
  Server server(Server::usual(), options);
  const auto status = [&](const std::string& type, const std::string& key = "bearer Secret") {
    Reply reply = server.api.answer({.method = "POST",
                                     .path = "/v1/routing",
                                     .body = R"({"input": "a"})",
                                     .authorization = key,
                                     .content_type = type,
                                     .host = "LocalHost:1"});
    return reply.status;
  };
  EXPECT_EQ(status("Application/JSON ; charset=utf-8"), 200);
  EXPECT_EQ(status("application/jsonx"), 415);
  EXPECT_EQ(status("application/json", "Bearer secret"), 401);
}

TEST(Api, AKeyIsAskedFor) {
  ApiOptions options;
  options.api_key = "secret";
  Server server(Server::usual(), options);
  const auto status = [&](const std::string& authorization, const std::string& path) {
    return server.api.answer({.method = "GET", .path = path, .authorization = authorization})
        .status;
  };
  EXPECT_EQ(status("Bearer secret", "/v1/models"), 200);
  for (const char* wrong :
       {"", "Bearer ", "Bearer secre", "Bearer secrets", "secret", "Bearer Secret"})
    EXPECT_EQ(status(wrong, "/v1/models"), 401) << wrong;
  EXPECT_EQ(status("", "/metrics"), 401);
  EXPECT_EQ(status("", "/health"), 200);
}

TEST(Api, AServerOfThisMachineIsAskedByItsNamesAlone) {
  ApiOptions options;
  options.hosts = {"localhost", "[::1]"};
  Server server(Server::usual(), options);
  const auto status = [&](const std::string& host) {
    return server.api.answer({.method = "GET", .path = "/health", .host = host}).status;
  };
  EXPECT_EQ(status("localhost:8080"), 200);
  EXPECT_EQ(status("localhost"), 200);
  EXPECT_EQ(status("[::1]:80"), 200);
  EXPECT_EQ(status("evil.example:8080"), 403);
  EXPECT_EQ(status(""), 403);
}

/// A stream that goes on for seconds, which is longer than any test lets it.
const std::string kLong =
    R"({"prompt": "x", "max_tokens": 50000, "temperature": 0, "stream": true, "seed": )";

TEST(Api, ClientsThatLeaveFreeTheirPlaces) {
  Server server;
  {
    std::vector<Reply> replies;
    for (int i = 0; i < 6; ++i)
      replies.push_back(server.ask("/v1/completions", kLong + std::to_string(i) + "}"));
    std::string some;
    EXPECT_TRUE(replies[0].stream->next(some, 100ms));
  }
  EXPECT_TRUE(server.settles(0));
  EXPECT_NE(server.get("/metrics").body.find("penstock_clients_left_total 6"), std::string::npos);
}

TEST(Api, TooManyWaitingTextsAreRefused) {
  ServiceOptions options = Server::usual();
  options.batcher.reader.places = 1;
  options.queue = 2;
  Server server(options);
  EXPECT_EQ(server.ask("/v1/completions", R"({"prompt": "a", "n": 3})").status, 429);
  std::vector<Reply> replies;
  int refused = 0;
  for (int i = 0; i < 12; ++i) {
    replies.push_back(server.ask("/v1/completions", kLong + std::to_string(i) + "}"));
    refused += replies.back().status == 429;
  }
  EXPECT_GT(refused, 0);
}

TEST(Api, TimeLimitsCutAnswers) {
  ApiOptions options;
  options.timeout = 1ms;
  Server server(Server::usual(), options);
  Reply reply = server.ask("/v1/completions", kLong + "1}");
  std::this_thread::sleep_for(5ms);
  const auto got = events(all_of(reply));
  EXPECT_EQ(got.back()["choices"][0]["finish_reason"], "interrupted");
}

TEST(Api, StoppingEndsAnswersAndRefusesMore) {
  Server server;
  Reply reply = server.ask("/v1/completions", kLong + "1}");
  server.service.stop(0ms);
  const auto got = events(all_of(reply));
  EXPECT_EQ(got.back()["choices"][0]["finish_reason"], "interrupted");
  EXPECT_EQ(server.ask("/v1/completions", R"({"prompt": "a"})").status, 503);
  EXPECT_EQ(server.get("/health").status, 503);
}

TEST(Api, FailuresOfTheModelAreErrors) {
  Server server;
  server.service.with_model([](LanguageModel& model) {
    const torch::NoGradGuard no_grad;
    model.named_parameters()["norm.weight"].fill_(std::nan(""));
  });
  answer(server, "/v1/completions", R"({"prompt": "a"})", 500);
  Reply stream = server.ask("/v1/completions", R"({"prompt": "a", "stream": true})");
  EXPECT_EQ(events(all_of(stream))[0]["error"]["type"], "server_error");
}

TEST(Api, ManyClientsGetWhatEachGetsAlone) {
  Server server;
  std::vector<std::thread> clients;
  std::vector<std::string> texts(8);
  for (std::size_t i = 0; i < texts.size(); ++i)
    clients.emplace_back([&, i] {
      texts[i] =
          answer(server, "/v1/completions",
                 json{{"prompt", "client " + std::to_string(i)}, {"max_tokens", 25}, {"seed", i}}
                     .dump())["choices"][0]["text"];
    });
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(texts[i], alone(server, "client " + std::to_string(i),
                              {.max_tokens = 25, .sampling = {.temperature = 1, .seed = i}})
                            .text);
}

}  // namespace
}  // namespace penstock::serve
