// The server's refusals and aborted answers, without a network: mistakes, keys and hosts, limits,
// clients that leave, and failures.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/serve/api.h"
#include "penstock/serve/page.h"
#include "tests/base/error_of.h"
#include "tests/serve/api_server.h"

namespace penstock::serve::api_test {
namespace {

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
  const json unknown = refused("/v1/embeddings", R"({"input": "a"})", 404);
  testing::expect_says(unknown["message"].get<std::string>(),
                       {"there is nothing at /v1/embeddings", "/v1/completions"});
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

TEST(Api, APromptBeyondTheContextHasACode) {
  ServiceOptions options = Server::usual();
  options.batcher.reader.capacity = 30;
  Server server(options);
  const auto refused = [&](const std::string& path, const std::string& body) {
    const json error = answer(server, path, body, 400)["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded") << error;
    EXPECT_EQ(error["type"], "invalid_request_error");
    return error;
  };
  const std::string fits = '"' + std::string(30, 'a') + '"';
  const std::string longer = '"' + std::string(31, 'a') + '"';
  json error = refused("/v1/completions", R"({"prompt": )" + longer + "}");
  EXPECT_EQ(error["param"], "prompt");
  EXPECT_EQ(error["message"].get<std::string>(),
            "the prompt has 31 tokens, more than the context of 30: shorten it");
  error = refused("/v1/completions", R"({"prompt": [)" + fits + ", " + longer + "]}");
  EXPECT_EQ(error["message"].get<std::string>(),
            "prompt 2 has 31 tokens, more than the context of 30: shorten it");
  error = refused("/v1/chat/completions",
                  R"({"messages": [{"role": "user", "content": )" + longer + "}]}");
  EXPECT_EQ(error["param"], "messages");
  answer(server, "/v1/completions", R"({"max_tokens": 1, "prompt": )" + fits + "}");
  error = answer(server, "/v1/completions", R"({"prompt": [99999]})", 400)["error"];
  EXPECT_TRUE(error["code"].is_null()) << error;
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
  EXPECT_EQ(status("", "/v1/models/tiny"), 401);
  const Reply refused = server.api.answer({.method = "GET", .path = "/v1/models"});
  EXPECT_EQ(refused.headers.at(0).first, "WWW-Authenticate");
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "invalid_api_key");
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

/// A request for a stream of several seconds. Every test ends the stream earlier.
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
  options.batcher.reader.sequences = 1;
  options.queue = 2;
  Server server(options);
  std::vector<Reply> replies;
  int refused = 0;
  for (int i = 0; i < 12; ++i) {
    replies.push_back(server.ask("/v1/completions", kLong + std::to_string(i) + "}"));
    refused += replies.back().status == 429;
  }
  EXPECT_GT(refused, 0);
}

TEST(Api, MoreTextsThanMayEverWaitAreAMistake) {
  ServiceOptions options = Server::usual();
  options.queue = 3;
  Server server(options);
  json wrong = answer(server, "/v1/completions", R"({"prompt": "a", "n": 4})", 400)["error"];
  EXPECT_EQ(wrong["param"], "n");
  EXPECT_EQ(wrong["message"].get<std::string>(), "'n' must be a whole number from 1 to 3");
  wrong = answer(server, "/v1/completions", R"({"prompt": ["a", "b", "c", "d"]})", 400)["error"];
  EXPECT_EQ(wrong["message"].get<std::string>(), "'prompt' has more than 3 elements");
  const json got = answer(server, "/v1/completions", R"({"prompt": "a", "n": 3, "max_tokens": 2})");
  EXPECT_EQ(got["choices"].size(), 3u);
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

TEST(Api, AStreamThatIsNotReadIsCutWithoutLoss) {
  ApiOptions options;
  options.unread_bytes = 100'000;
  Server server(Server::usual(), options);
  Reply slow = server.ask("/v1/completions", R"({"prompt": "x", "max_tokens": 50000, "n": 2,
      "temperature": 0, "stream": true, "routing": "logits"})");
  EXPECT_TRUE(server.settles(0));
  const auto got = events(all_of(slow));
  std::vector<int> tokens(2);  // of each text
  for (const json& event : got) {
    if (!event.contains("routing")) continue;
    int& next = tokens.at(event["choices"][0]["index"].get<std::size_t>());
    EXPECT_EQ(event["routing"]["token"].get<int>(), next++);
  }
  for (const int count : tokens) EXPECT_TRUE(count > 10 && count < 2000) << count;
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_EQ(got[got.size() - i]["choices"][0]["finish_reason"], "interrupted");
}

TEST(Api, AWholeAnswerHasNoLimitOfAStream) {
  ApiOptions options;
  options.unread_bytes = 100;
  Server server(Server::usual(), options);
  const json got = answer(server, "/v1/completions", R"({"prompt": "x", "max_tokens": 40,
      "temperature": 0, "logprobs": 5})");
  EXPECT_EQ(got["usage"]["completion_tokens"], 40);
}

TEST(Api, AStreamIsReadWithinItsTime) {
  ApiOptions options;
  options.timeout = 0ms;
  options.reading_time = 0ms;
  Server server(Server::usual(), options);
  Reply reply = server.ask("/v1/completions", R"({"prompt": "x", "max_tokens": 400,
      "temperature": 0, "stream": true})");
  EXPECT_TRUE(server.settles(0));  // its client has read nothing so far
  EXPECT_ANY_THROW(all_of(reply));
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

TEST(Api, AClosedServiceSaysSoWhileItsTextsGoOn) {
  Server server;
  Reply reply = server.ask("/v1/completions", kLong + "1}");
  std::string some;
  EXPECT_TRUE(reply.stream->next(some, 100ms));
  server.service.close();
  const Reply health = server.get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(json::parse(health.body),
            json({{"status", "stopping"}, {"running", 1}, {"waiting", 0}}));
  EXPECT_EQ(server.ask("/v1/completions", R"({"prompt": "a"})").status, 503);
  EXPECT_TRUE(reply.stream->next(some, 100ms));
}

TEST(Api, FailuresOfTheModelAreErrors) {
  Server server;
  server.service.with_model([](LanguageModel& model) {
    const torch::NoGradGuard no_grad;
    model.named_parameters()["norm.weight"].fill_(std::nan(""));
  });
  const json whole = answer(server, "/v1/completions", R"({"prompt": "a"})", 500);
  Reply stream = server.ask("/v1/completions", R"({"prompt": "a", "stream": true})");
  const json streamed = events(all_of(stream))[0];
  EXPECT_EQ(streamed["error"]["type"], "server_error");
  for (const json& one : {whole, streamed})
    testing::expect_says(one["error"]["message"].get<std::string>(),
                         {"tiny: the logit of token 0 is NaN", "`penstock doctor`"});
}

}  // namespace
}  // namespace penstock::serve::api_test
