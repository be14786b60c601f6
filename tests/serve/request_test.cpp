// Requests from clients: accepted requests, and refusals that name the wrong key.
#include "penstock/serve/request.h"

#include <gtest/gtest.h>

namespace penstock::serve {
namespace {

template <class Parse>
void expect_refused(Parse parse, const std::string& body, const std::string& parameter) {
  SCOPED_TRACE(body.substr(0, 100));
  try {
    parse(body, RequestLimits());
    ADD_FAILURE() << "the request was accepted";
  } catch (const RequestError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.parameter(), parameter) << error.what();
  }
}

void refuse(const std::string& keys, const std::string& parameter) {
  expect_refused(parse_completion, R"({"prompt": "a", )" + keys + "}", parameter);
}

void refuse_chat(const std::string& body, const std::string& parameter) {
  expect_refused(parse_chat, body, parameter);
}

TEST(Request, DefaultsAreOpenAIs) {
  const TextRequest request = parse_completion(R"({"prompt": "Once"})");
  EXPECT_FALSE(request.chat);
  ASSERT_EQ(request.prompts.size(), 1u);
  EXPECT_EQ(std::get<std::string>(request.prompts[0]), "Once");
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_FALSE(request.seed);
  EXPECT_FALSE(request.stream);
  EXPECT_EQ(request.likeliest, -1);
}

TEST(Request, EveryKeyIsRead) {
  const TextRequest request = parse_completion(R"({"model": "m", "prompt": ["a", [1, 2]],
      "max_tokens": 7, "n": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": -3,
      "stop": ["x", "yz"], "stream": true, "stream_options": {"include_usage": true}, "logprobs": 4,
      "routing": true, "user": "u", "presence_penalty": -2, "frequency_penalty": 0.5,
      "repetition_penalty": 1.25, "min_p": 0.05, "logit_bias": {"50": -100, "7": 2.5},
      "echo": false, "best_of": 3, "suffix": null})");
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(request.prompts[1]), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.05);
  EXPECT_EQ(request.adjustments.presence_penalty, -2);
  EXPECT_EQ(request.adjustments.frequency_penalty, 0.5);
  EXPECT_EQ(request.adjustments.repetition_penalty, 1.25);
  EXPECT_EQ(request.adjustments.bias,
            (std::vector<std::pair<TokenId, double>>{{50, -100}, {7, 2.5}}));
  EXPECT_EQ(request.seed, -3);
  EXPECT_EQ(request.sampling.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_TRUE(request.stream && request.include_usage);
  EXPECT_EQ(request.routing, RoutingShown::experts);
  EXPECT_EQ(request.likeliest, 4);
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "stop": "b"})").stop.size(), 1u);
  EXPECT_EQ(parse_completion(R"({"prompt": [5, 6]})").prompts.size(), 1u);
  const TextRequest greedy = parse_completion(R"({"prompt": "a", "top_p": 0})");
  EXPECT_EQ(greedy.sampling.top_k, 1);
  EXPECT_EQ(greedy.sampling.top_p, 1);
}

TEST(Request, ChatsHaveKeysOfTheirOwn) {
  const TextRequest request =
      parse_chat(R"({"messages": [{"role": "developer", "content": "be brief"},
      {"role": "user", "name": "u", "content": [{"type": "text", "text": "a"},
      {"type": "text", "text": "b"}]}], "max_completion_tokens": 9, "logprobs": true,
      "top_logprobs": 2})");
  EXPECT_TRUE(request.chat);
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.messages[0].role, ChatRole::system);
  EXPECT_EQ(request.messages[1].content, "ab");
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.likeliest, 2);
  EXPECT_FALSE(parse_chat(R"({"messages": [{"role": "user", "content": "a"}]})").max_tokens);
}

TEST(Request, AnAnswerCanBeSentBackAsItCame) {
  const TextRequest request = parse_chat(R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b", "refusal": null, "annotations": [], "audio": null,
       "function_call": null, "tool_calls": []}, {"role": "user", "content": "c"}]})");
  ASSERT_EQ(request.messages.size(), 3u);
  EXPECT_EQ(request.messages[1].role, ChatRole::assistant);
  EXPECT_EQ(request.messages[1].content, "b");
}

TEST(Request, WhatIsNoJsonIsRefused) {
  for (const char* body :
       {"", "{", "[]", "1", "null", "\"a\"", "{\"prompt\": \"a\"} x", "{\"prompt\": \"\xff\"}",
        "{\"prompt\": 1e999}", "{\"prompt\": \"\\ud800\"}"})
    expect_refused(parse_completion, body, "");
  std::string deep = R"({"prompt": "a", "metadata": )";
  for (int i = 0; i < 100000; ++i) deep += '[';
  expect_refused(parse_completion, deep, "");
  try {
    parse_completion("{\"prompt\": ", {});
    ADD_FAILURE() << "the request was accepted";
  } catch (const RequestError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("the body is not JSON: parse error at line 1", 0), 0u)
        << error.what();
  }
  expect_refused(
      parse_completion,
      R"({"prompt": "a", "metadata": )" + std::string(40, '[') + std::string(40, ']') + "}", "");
}

TEST(Request, AKeyThatComesTwiceIsRefused) {
  refuse(R"("prompt": "b")", "prompt");
  refuse(R"("n": 1, "n": 1)", "n");
  refuse(R"("metadata": {"a": [{"b": {}}], "a": 1})", "a");
  refuse(R"("metadata": {"a": {"b": 1}, "c": [{"d": 1, "\u0064": 2}]})", "d");
  const TextRequest request = parse_completion(
      R"({"prompt": "a", "metadata": {"prompt": [{"prompt": 1}, {"prompt": 2}]}, "n": 2})");
  EXPECT_EQ(request.n, 2);
}

TEST(Request, WrongTypesAndRangesAreRefusedByName) {
  expect_refused(parse_completion, "{}", "prompt");
  for (const char* prompt : {"1", "{}", "true", "[]", "[\"a\", 1]", "[1, \"a\"]", "[1.5]", "[-1]",
                             "[4294967296]", "[[1], []]", "[[\"a\"]]", "[null]"})
    expect_refused(parse_completion, std::string("{\"prompt\": ") + prompt + "}", "prompt");
  for (const char* value :
       {"0", "-1", "1.5", "\"7\"", "true", "[]", "18446744073709551615", "1e30", "99999999999"})
    refuse(std::string("\"max_tokens\": ") + value, "max_tokens");
  for (const char* value : {"0", "17", "\"1\"", "{}"}) refuse(std::string("\"n\": ") + value, "n");
  for (const char* value : {"-0.1", "101", "\"hot\"", "[1]", "false"})
    refuse(std::string("\"temperature\": ") + value, "temperature");
  for (const char* value : {"-1", "1.01", "\"x\""})
    refuse(std::string("\"top_p\": ") + value, "top_p");
  for (const char* value : {"1.5", "\"1\"", "9223372036854775808", "true"})
    refuse(std::string("\"seed\": ") + value, "seed");
  for (const char* value :
       {"\"\"", "1", "[1]", "[\"\"]", "{}", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"})
    refuse(std::string("\"stop\": ") + value, "stop");
  refuse(R"("stream": 1)", "stream");
  refuse(R"("stream_options": {"include_usage": true})", "stream_options");
  refuse(R"("stream": true, "stream_options": 1)", "stream_options");
  refuse(R"("stream": true, "stream_options": {"include_usage": 1})",
         "stream_options.include_usage");
  refuse(R"("logprobs": 21)", "logprobs");
  refuse(R"("logprobs": true)", "logprobs");
  refuse(R"("routing": true)", "routing");
  refuse(R"("stream": true, "routing": "all")", "routing");
  for (const char* value : {"0", "-1", "1.5", "\"2\"", "100000"})
    refuse(std::string("\"experts_per_token\": ") + value, "experts_per_token");
  for (const char* value : {"\"0\"", "1e7", "[0]"})
    refuse(std::string("\"logit_shift\": ") + value, "logit_shift");
  refuse(R"("model": 3)", "model");
  for (const char* value : {"-2.1", "2.1", "\"0\"", "true"}) {
    refuse(std::string("\"presence_penalty\": ") + value, "presence_penalty");
    refuse(std::string("\"frequency_penalty\": ") + value, "frequency_penalty");
  }
  for (const char* value : {"0", "-1", "101", "\"1\""})
    refuse(std::string("\"repetition_penalty\": ") + value, "repetition_penalty");
  for (const char* value : {"-0.1", "1.1", "\"0\""})
    refuse(std::string("\"min_p\": ") + value, "min_p");
  for (const char* value :
       {"1", "[1]", "[[5, 1]]", R"({"a": 1})", R"({"05": 1})", R"({"-1": 1})", R"({"": 1})",
        R"({"99999999999": 1})", R"({"5": "1"})", R"({"5": 100.5})", R"({"5": null})"})
    refuse(std::string("\"logit_bias\": ") + value, "logit_bias");
}

TEST(Request, WhatThereIsNotIsRefused) {
  refuse(R"("echo": true, "stream": true)", "echo");
  refuse(R"("echo": 1)", "echo");
  refuse(R"("best_of": 4)", "best_of");
  refuse(R"("temprature": 1)", "temprature");
  EXPECT_THROW(parse_completion(R"({"prompt": ["a", "b", "c"], "n": 6})"), RequestError);
}

TEST(Request, ValuesThatChangeNothingAreAccepted) {
  const TextRequest same = parse_completion(R"({"prompt": "a", "min_p": 0, "logit_bias": {},
      "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0.0})");
  EXPECT_TRUE(same.adjustments.none());
  EXPECT_TRUE(parse_completion(R"({"prompt": "a", "logit_bias": []})").adjustments.none());
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "top_k": -1})").sampling.top_k, 0);
  refuse(R"("top_k": -2)", "top_k");
  for (const char* empty : {"{}", "[]", "null"})
    EXPECT_FALSE(
        parse_completion(std::string(R"({"prompt": "a", "stream_options": )") + empty + "}")
            .include_usage);
}

TEST(Request, AnEchoMayComeWithoutFurtherTokens) {
  const auto request =
      parse_completion(R"({"prompt": "a", "echo": true, "max_tokens": 0, "logprobs": 5})");
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.max_tokens, 0);
  EXPECT_EQ(request.likeliest, 5);
  EXPECT_FALSE(parse_completion(R"({"prompt": "a"})").echo);
  refuse(R"("echo": true, "max_tokens": -1)", "max_tokens");
  refuse(R"("echo": false, "max_tokens": 0)", "max_tokens");
  refuse(R"("echo": true, "logprobs": 6)", "logprobs");
  refuse_chat(R"({"messages": [{"role": "user", "content": "a"}], "echo": true})", "echo");
}

TEST(Request, MessagesAreChecked) {
  refuse_chat("{}", "messages");
  refuse_chat(R"({"messages": []})", "messages");
  refuse_chat(R"({"messages": "hello"})", "messages");
  refuse_chat(R"({"messages": ["hello"]})", "messages[0]");
  refuse_chat(R"({"messages": [{"role": "user"}]})", "messages[0].content");
  refuse_chat(R"({"messages": [{"role": "tool", "content": "a"}]})", "messages[0].role");
  refuse_chat(R"({"messages": [{"role": 1, "content": "a"}]})", "messages[0].role");
  refuse_chat(R"({"messages": [{"role": "user", "content": "a", "x": 1}]})", "messages[0].x");
  refuse_chat(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
              "messages[0].content[0].type");
  refuse_chat(R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})",
              "top_logprobs");
  refuse_chat(R"({"messages": [{"role": "user", "content": "a"}], "prompt": "b"})", "prompt");
}

TEST(Request, RoutingIsChosenInEveryKind) {
  const std::string keys = R"("routing": "logits", "experts_per_token": 3, "logit_shift": -0.5})";
  const RoutingChoice wanted{.k = 3, .logit_shift = -0.5};
  const auto completion = parse_completion(R"({"prompt": "a", "stream": true, )" + keys);
  EXPECT_EQ(completion.routing, RoutingShown::logits);
  EXPECT_EQ(completion.choice, wanted);
  const auto chat =
      parse_chat(R"({"messages": [{"role": "user", "content": "a"}], "stream": true, )" + keys);
  EXPECT_EQ(chat.choice, wanted);
  const auto routing = parse_routing(R"({"input": "a", )" + keys);
  EXPECT_EQ(routing.routing, RoutingShown::logits);
  EXPECT_EQ(routing.choice, wanted);
  EXPECT_EQ(parse_routing(R"({"input": "a"})").routing, RoutingShown::experts);
}

TEST(Request, RoutingTakesTextOrTokens) {
  EXPECT_EQ(std::get<std::string>(parse_routing(R"({"input": "a"})").input), "a");
  EXPECT_EQ(std::get<std::vector<TokenId>>(parse_routing(R"({"input": [1]})").input).size(), 1u);
  expect_refused(parse_routing, "{}", "input");
  expect_refused(parse_routing, R"({"input": {}})", "input");
  expect_refused(parse_routing, R"({"input": "a", "layers": 1})", "layers");
}

TEST(Request, AnErrorKeepsANulOfAKey) {
  try {
    parse_completion(R"({"prompt": "a", "top\u0000p": 1})");
    ADD_FAILURE() << "the request was accepted";
  } catch (const RequestError& error) {
    EXPECT_EQ(
        error_body(error),
        R"({"error":{"message":"'top\u0000p' is unknown here","type":"invalid_request_error",)"
        R"("param":"top\u0000p","code":null}})");
  }
}

TEST(Request, ErrorsAreOpenAIsObjects) {
  EXPECT_EQ(
      error_body(RequestError(400, "it is wrong", "n")),
      R"({"error":{"message":"it is wrong","type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_EQ(error_body(429, "later"),
            R"({"error":{"message":"later","type":"rate_limit_error","param":null,"code":null}})");
}

}  // namespace
}  // namespace penstock::serve
