// POST /tokenize and POST /detokenize, as clients of llama.cpp's server and of vLLM ask them.
#include "penstock/serve/token_answers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/vocabulary.h"
#include "tests/base/error_of.h"
#include "tests/serve/api_server.h"

namespace penstock::serve::api_test {
namespace {

/// A tokenizer with a token that begins documents (0), one that ends them (1), and a token for each
/// byte (2 + byte).
std::shared_ptr<const Tokenizer> with_beginning() {
  Vocabulary vocabulary{.kind = Vocabulary::Kind::kSentencePieceBpe,
                        .bos = 0,
                        .eos = 1,
                        .add_bos = true,
                        .add_space_prefix = false};
  for (const char* control : {"<s>", "</s>"})
    vocabulary.pieces.push_back({.text = control, .type = Vocabulary::PieceType::kControl});
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.pieces.push_back(
        {.text = fmt::format("<0x{:02X}>", byte), .type = Vocabulary::PieceType::kByte});
  return make_tokenizer(vocabulary);
}

/// A server of one model with that tokenizer.
struct Marked {
  std::shared_ptr<Service> service;
  Api api;

  explicit Marked(ApiOptions options = {})
      : service(std::make_shared<Service>(tiny_marked(), with_beginning(), Server::usual())),
        api({{.name = "marked", .service = service, .chat_form = ChatForm::plain}},
            std::move(options)) {}
  static std::shared_ptr<LanguageModel> tiny_marked() {
    ModelConfig config = testing::tiny("topk");
    config.vocab = with_beginning()->vocab_size();
    auto out = make_model(config, 21);
    out->eval();
    return out;
  }
  json ask(const std::string& path, const std::string& body, int status = 200) {
    Reply reply = api.answer(
        {.method = "POST", .path = path, .body = body, .content_type = "application/json"});
    const std::string text = all_of(reply);
    EXPECT_EQ(reply.status, status) << text;
    return json::parse(text);
  }
  json tokens(const std::string& body) { return ask("/tokenize", body)["tokens"]; }
};

constexpr int kA = 2 + 'a';

TEST(TokenAnswers, ContentIsReadAsByLlamaCpp) {
  Marked server;
  EXPECT_EQ(server.tokens(R"({"content": "a</s>"})"), json({kA, 1}));
  EXPECT_EQ(server.tokens(R"({"content": "a</s>", "parse_special": false})"),
            json({kA, 2 + '<', 2 + '/', 2 + 's', 2 + '>'}));
  EXPECT_EQ(server.tokens(R"({"content": "a", "add_special": true})"), json({0, kA}));
  EXPECT_EQ(server.tokens(R"({"content": ""})"), json::array());
}

TEST(TokenAnswers, APromptIsReadAsByCompletions) {
  Marked server;
  const json got = server.ask("/tokenize", R"({"prompt": "a", "model": "marked"})");
  EXPECT_EQ(got, json({{"tokens", {0, kA}},
                       {"token_strs", nullptr},
                       {"count", 2},
                       {"max_model_len", server.service->capacity()}}));
  EXPECT_EQ(server.tokens(R"({"prompt": "a", "add_special_tokens": false})"), json::array({kA}));
  for (const std::string prompt : {"a", "a</s>", "\u00e9\u4e2d"}) {
    const json body{{"prompt", prompt}, {"max_tokens", 1}};
    EXPECT_EQ(server.ask("/tokenize", json{{"prompt", prompt}}.dump())["count"],
              server.ask("/v1/completions", body.dump())["usage"]["prompt_tokens"]);
  }
}

TEST(TokenAnswers, AChatHasTheTokensThatTheModelReads) {
  Marked server;
  const std::string messages = R"({"messages": [{"role": "user", "content": "a"}])";
  const json got = server.ask(
      "/tokenize", messages + R"(, "add_generation_prompt": true, "add_special_tokens": false})");
  EXPECT_EQ(got["count"], server.ask("/v1/chat/completions",
                                     messages + R"(, "max_tokens": 1})")["usage"]["prompt_tokens"]);
  EXPECT_EQ(server.ask("/detokenize", json{{"tokens", got["tokens"]}}.dump())["content"],
            "user: a\n\nassistant:");
}

TEST(TokenAnswers, TokensHaveTheirPieces) {
  Marked server;
  const std::string body = R"({"content": "a\u00e9</s>", "with_pieces": true)";
  const json pieces{{{"id", kA}, {"piece", "a"}},
                    {{"id", 2 + 0xc3}, {"piece", json::array({0xc3})}},
                    {{"id", 2 + 0xa9}, {"piece", json::array({0xa9})}},
                    {{"id", 1}, {"piece", ""}}};
  EXPECT_EQ(server.tokens(body + "}"), pieces);
  EXPECT_EQ(server.ask("/tokenize", body + R"(, "return_token_strs": true})")["token_strs"],
            json({"a", "bytes:\\xc3", "bytes:\\xa9", ""}));
}

TEST(TokenAnswers, TextComesBackUnderBothNames) {
  Marked server;
  const std::string text = "a\u00e9 \U0001f600\n\"\\";
  const json tokens = server.tokens(json{{"content", text}}.dump());
  const json got = server.ask("/detokenize", json{{"tokens", tokens}}.dump());
  EXPECT_EQ(got, json({{"content", text}, {"prompt", text}}));
  EXPECT_EQ(server.ask("/detokenize", R"({"tokens": [], "model": "marked"})")["prompt"], "");
  // A part of a character is no text.
  EXPECT_EQ(server.ask("/detokenize", json{{"tokens", json::array({2 + 0xc3})}}.dump())["content"],
            "\ufffd");
}

TEST(TokenAnswers, MistakesNameTheirKey) {
  Marked server;
  const auto refused = [&](const std::string& path, const std::string& body,
                           const std::string& key) {
    EXPECT_EQ(server.ask(path, body, 400)["error"]["param"], key) << body;
  };
  refused("/tokenize", "{}", "content");
  refused("/tokenize", R"({"content": "a", "prompt": "a"})", "prompt");
  refused("/tokenize", R"({"content": ["a"]})", "content");
  refused("/tokenize", R"({"prompt": 7})", "prompt");
  refused("/tokenize", R"({"content": "a", "add_special": 1})", "add_special");
  refused("/tokenize", R"({"content": "a", "add_special": true, "add_special_tokens": false})",
          "add_special_tokens");
  refused("/tokenize", R"({"content": "a", "colour": 1})", "colour");
  const std::string messages = R"("messages": [{"role": "user", "content": "a"}])";
  refused("/tokenize", "{" + messages + R"(, "add_special": true})", "add_special");
  refused("/tokenize", "{" + messages + R"(, "add_generation_prompt": false})",
          "add_generation_prompt");
  refused("/detokenize", "{}", "tokens");
  for (const std::string tokens : {"\"a\"", "[1.5]", "[-1]", "[99999999999]", "[258]", "[[1]]"})
    refused("/detokenize", R"({"tokens": )" + tokens + "}", "tokens");
  EXPECT_EQ(server.ask("/tokenize", R"({"content": "a", "model": "b"})", 404)["error"]["param"],
            "model");
  EXPECT_EQ(server.api.answer({.method = "GET", .path = "/tokenize"}).headers.at(0).second, "POST");
}

TEST(TokenAnswers, ALongTextIsRefused) {
  ApiOptions options;
  options.limits.text_bytes = 3;
  Marked server(options);
  const auto asked = [](int count) {
    return json{{"tokens", json::array_t(static_cast<std::size_t>(count), kA)}}.dump();
  };
  EXPECT_EQ(server.ask("/detokenize", asked(3))["content"], "aaa");
  testing::expect_says(
      server.ask("/detokenize", asked(4), 400)["error"]["message"].get<std::string>(),
      {"more than 3 bytes"});
}

TEST(TokenAnswers, AServerWithoutAModelDoesNotListThem) {
  const auto listed = [](Api& api) {
    return json::parse(api.answer({.method = "GET", .path = "/v1/models"}).body)["endpoints"];
  };
  Marked server;
  EXPECT_EQ(listed(server.api), json({"/tokenize", "/detokenize"}));
  Api empty({}, {});
  EXPECT_EQ(listed(empty), json::array());
}

}  // namespace
}  // namespace penstock::serve::api_test
