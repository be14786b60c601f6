// The server's answers, without a network: texts, streams, chats, routing and several clients.
#include "penstock/serve/api.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "penstock/infer/generate.h"
#include "tests/serve/api_server.h"

namespace penstock::serve::api_test {
namespace {

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
    EXPECT_TRUE(event.contains("usage") && event["usage"].is_null()) << event;
    text += event["choices"][0]["text"].get<std::string>();
    finish = event["choices"][0]["finish_reason"];
  }
  EXPECT_EQ(text, whole["choices"][0]["text"].get<std::string>());
  EXPECT_EQ(finish, whole["choices"][0]["finish_reason"].get<std::string>());
  EXPECT_EQ(got.back()["usage"], whole["usage"]);
}

TEST(Api, OnlyStreamsThatAskForUsageHaveIt) {
  Server server;
  Reply reply =
      server.ask("/v1/completions", R"({"prompt": "a", "max_tokens": 2, "stream": true})");
  for (const json& event : events(all_of(reply))) EXPECT_FALSE(event.contains("usage")) << event;
  reply = server.ask("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}],
      "max_tokens": 2, "stream": true, "stream_options": {"include_usage": true}})");
  const std::vector<json> got = events(all_of(reply));
  EXPECT_TRUE(got.front()["usage"].is_null());
  EXPECT_TRUE(got.back()["usage"].is_object());
}

TEST(Api, TheChosenTokenIsAmongTheLikeliest) {
  Server server;
  const std::string body = R"({"prompt": "the gate", "max_tokens": 8, "seed": 3, "logprobs": )";
  for (const std::size_t likeliest : {0u, 2u}) {
    const json got = answer(server, "/v1/completions", body + std::to_string(likeliest) + "}");
    const json& logprobs = got["choices"][0]["logprobs"];
    std::size_t unlikely = 0;
    for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
      const json& listed = logprobs["top_logprobs"][i];
      EXPECT_EQ(listed.at(logprobs["tokens"][i].get<std::string>()), logprobs["token_logprobs"][i]);
      EXPECT_LE(listed.size(), likeliest + 1);
      unlikely += listed.size() == likeliest + 1;
    }
    EXPECT_GT(unlikely, 0u);  // a chosen token that is not one of the likeliest
  }
}

TEST(Api, OffsetsOfTokensCountCharacters) {
  Server server;
  const std::string body =
      R"({"prompt": "the gate", "max_tokens": 60, "temperature": 1.5, "seed": 3, "logprobs": 0)";
  const json choice = answer(server, "/v1/completions", body + "}")["choices"][0];
  std::vector<std::string> characters;
  for (const char byte : choice["text"].get<std::string>()) {
    if ((static_cast<unsigned char>(byte) & 0xc0) != 0x80) characters.emplace_back();
    characters.back() += byte;
  }
  const json& logprobs = choice["logprobs"];
  std::size_t behind_longer = 0;  // tokens behind a character of several bytes
  for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    const std::string token = logprobs["tokens"][i];
    const std::size_t offset = logprobs["text_offset"][i];
    if (token.size() > 1) continue;  // bytes above 127
    ASSERT_LT(offset, characters.size());
    EXPECT_EQ(characters[offset], token);
    for (std::size_t c = 0; c < offset; ++c) behind_longer += characters[c].size() > 1;
  }
  EXPECT_GT(behind_longer, 0u);
  Reply reply = server.ask("/v1/completions", body + R"(, "stream": true})");
  json streamed = json::array();
  for (const json& event : events(all_of(reply)))
    if (!event["choices"][0]["logprobs"].is_null())
      streamed.push_back(event["choices"][0]["logprobs"]["text_offset"][0]);
  EXPECT_EQ(streamed, logprobs["text_offset"]);
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
          traced["layers"][layer]["experts"][7 + token];  // the routing of the token before
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
  EXPECT_EQ(json::parse(server.get("/v1/models/other").body), models[1]);
  EXPECT_EQ(json::parse(server.get("/v1/models/%6Fther").body), models[1]);
  EXPECT_EQ(server.get("/v1/models/").status, 404);
  const json wrong = json::parse(server.get("/v1/models/oth").body)["error"];
  EXPECT_EQ(wrong["code"], "model_not_found");
  EXPECT_EQ(server.ask("/v1/models/other", "{}").status, 405);
  const std::string metrics = server.get("/metrics").body;
  EXPECT_NE(metrics.find("path=\"/v1/models/NAME\",status=\"200\"} 2"), std::string::npos)
      << metrics;
}

TEST(Api, LayersOfExpertsAreThoseOfTheModel) {
  ModelConfig config = testing::tiny("topk");
  config.vocab = bytes()->vocab_size();
  config.layers = 5;
  config.moe.dense_layers = 1;
  config.moe.every = 2;
  const auto service = std::make_shared<Service>(make_model(config, 21), bytes(), Server::usual());
  const json got = model_json({.name = "interleaved", .service = service}, 0);
  EXPECT_EQ(got["expert_layers"], json({1, 3}));
  EXPECT_EQ(got["layers_with_experts"], 2);
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

TEST(Api, LogitsAreAdjustedBeforeTheChoiceAlone) {
  Server server;
  const json got = answer(server, "/v1/completions",
                          R"({"prompt": "a", "max_tokens": 3, "temperature": 0, "logprobs": 1,
                              "logit_bias": {"122": 100}})");
  EXPECT_EQ(got["choices"][0]["text"], "zzz");
  // The log-probabilities are those of the model's own logits.
  const json plain = answer(server, "/v1/completions",
                            R"({"prompt": "azzz", "max_tokens": 0, "echo": true, "logprobs": 1})");
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(got["choices"][0]["logprobs"]["token_logprobs"][i].get<double>(),
                plain["choices"][0]["logprobs"]["token_logprobs"][i + 1].get<double>(), 1e-4);
  const json wrong =
      answer(server, "/v1/completions", R"({"prompt": "a", "logit_bias": {"99999": 1}})", 400);
  EXPECT_EQ(wrong["error"]["param"], "logit_bias");
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

TEST(Api, AnswersWithRoutingHaveALimitTogether) {
  ApiOptions options;
  options.routing_numbers = 2 * 8 * 2 * 4;  // logits and gates, tokens, layers, experts
  Server server(Server::usual(), options);
  const std::string logits = R"({"input": "the gate", "routing": "logits"})";
  Reply first = server.ask("/v1/routing", logits);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(answer(server, "/v1/routing", R"({"input": "a"})", 429)["error"]["type"],
            "rate_limit_error");
  EXPECT_EQ(json::parse(all_of(first))["layers"].size(), 2u);
  EXPECT_EQ(server.ask("/v1/routing", R"({"input": "a"})").status, 429);
  first = {};  // its answer is sent
  const Reply half = server.ask("/v1/routing", R"({"input": "the gate"})");
  const Reply other_half = server.ask("/v1/routing", R"({"input": "the gate"})");
  EXPECT_EQ(half.status, 200);
  EXPECT_EQ(other_half.status, 200);
  EXPECT_EQ(server.ask("/v1/routing", R"({"input": "a"})").status, 429);
}

TEST(Api, RoutingEndsAtTheTimeLimit) {
  ApiOptions options;
  options.timeout = -1ms;
  Server server(Server::usual(), options);
  Reply reply = server.ask("/v1/routing", R"({"input": "a"})");
  std::string out;
  EXPECT_THROW(reply.stream->next(out, 0ms), std::exception);
}

TEST(Api, FurtherEndpointsGiveTheirBodies) {
  ApiOptions options;
  options.endpoints["/v1/corpus"] = [] { return Reply{.body = "{}"}; };
  Server server(Server::usual(), options);
  EXPECT_EQ(server.get("/v1/corpus").body, "{}");
  EXPECT_EQ(json::parse(server.get("/v1/models").body)["endpoints"],
            json({"/v1/corpus", "/tokenize", "/detokenize"}));
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
  EXPECT_TRUE(got["choices"][0]["message"].at("refusal").is_null());
  EXPECT_TRUE(got["choices"][0]["logprobs"].at("refusal").is_null());
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
  EXPECT_EQ(text, got["choices"][0]["message"]["content"].get<std::string>());
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
}  // namespace penstock::serve::api_test
