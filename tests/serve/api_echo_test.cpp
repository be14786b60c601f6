// Answers that begin with their prompts, and the log-probabilities of prompts, against whole
// passes.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "penstock/infer/generate.h"
#include "penstock/serve/api.h"
#include "tests/serve/api_server.h"

namespace penstock::serve::api_test {
namespace {

/// The log-probabilities [T, V] f64 of what follows each token, by one pass over all of them.
at::Tensor whole_pass(Server& server, const std::string& text) {
  const std::vector<TokenId> tokens = prompt_tokens(*bytes(), text);
  return torch::log_softmax(testing::whole(*server.model, tokens).to(torch::kDouble), -1);
}

/// Compares the entries of the tokens of `text`, which the lists begin with.
void expect_prompt(const json& logprobs, const std::string& text, const at::Tensor& expected) {
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
    ASSERT_GE(logprobs[list].size(), text.size()) << list;
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  for (std::size_t i = 0; i < text.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(logprobs["tokens"][i], std::string(1, text[i]));
    EXPECT_EQ(logprobs["text_offset"][i], i);
    if (i == 0) continue;
    const at::Tensor row = expected[static_cast<std::int64_t>(i) - 1];
    EXPECT_NEAR(logprobs["token_logprobs"][i].get<double>(),
                row[static_cast<unsigned char>(text[i])].item<double>(), 1e-4);
    double best = -1e9;  // a client tells by it whether the token is the likeliest
    for (const auto& [spelt, logprob] : logprobs["top_logprobs"][i].items())
      best = std::max(best, logprob.get<double>());
    EXPECT_NEAR(best, row.max().item<double>(), 1e-4);
  }
}

TEST(Api, AnEchoHasTheLogProbabilitiesOfThePrompt) {
  Server server;
  const std::string first = "the gate decides", second = "water";
  const std::string ids = json(prompt_tokens(*bytes(), second)).dump();
  for (const std::string& prompt : {"[\"" + first + "\", " + ids + "]", "\"" + first + "\"",
                                    "[[116, 104, 101], " + ids + "]", ids}) {
    SCOPED_TRACE(prompt);
    const json got = answer(server, "/v1/completions",
                            R"({"max_tokens": 0, "echo": true, "logprobs": 1, "temperature": 0,
                                "prompt": )" +
                                prompt + "}");
    for (const json& choice : got["choices"]) {
      const std::string text = choice["text"];
      EXPECT_TRUE(text == first || text == second || text == "the") << text;
      EXPECT_EQ(choice["logprobs"]["tokens"].size(), text.size());
      EXPECT_EQ(choice["finish_reason"], "length");
      expect_prompt(choice["logprobs"], text, whole_pass(server, text));
    }
    EXPECT_EQ(got["usage"]["completion_tokens"], 0);
  }
}

TEST(Api, AnEchoIsFollowedByTheText) {
  Server server;
  const std::string prompt = "the gate";
  const std::string body = R"({"prompt": "the gate", "max_tokens": 5, "temperature": 0)";
  const json plain = answer(server, "/v1/completions", body + R"(, "logprobs": 2})")["choices"][0];
  const json echoed =
      answer(server, "/v1/completions", body + R"(, "logprobs": 2, "echo": true})")["choices"][0];
  const std::string written = plain["text"];
  EXPECT_EQ(echoed["text"], prompt + written);
  EXPECT_EQ(echoed["finish_reason"], plain["finish_reason"]);
  expect_prompt(echoed["logprobs"], prompt, whole_pass(server, prompt));
  const std::size_t count = plain["logprobs"]["tokens"].size();
  ASSERT_EQ(echoed["logprobs"]["tokens"].size(), prompt.size() + count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const char* list : {"tokens", "token_logprobs", "top_logprobs"})
      EXPECT_EQ(echoed["logprobs"][list][prompt.size() + i], plain["logprobs"][list][i]);
    EXPECT_EQ(echoed["logprobs"]["text_offset"][prompt.size() + i].get<std::size_t>(),
              prompt.size() + plain["logprobs"]["text_offset"][i].get<std::size_t>());
  }
  const json bare = answer(server, "/v1/completions", body + R"(, "echo": true})")["choices"][0];
  EXPECT_EQ(bare["text"], prompt + written);
  EXPECT_TRUE(bare["logprobs"].is_null());
}

TEST(Api, TextsOfOnePromptHaveTheSameEcho) {
  Server server;
  const std::string prompt(50, 'q');
  const json got = answer(server, "/v1/completions",
                          json{{"prompt", prompt},
                               {"max_tokens", 3},
                               {"n", 3},
                               {"seed", 4},
                               {"echo", true},
                               {"logprobs", 3}}
                              .dump());
  ASSERT_EQ(got["choices"].size(), 3u);
  const at::Tensor expected = whole_pass(server, prompt);
  for (const json& choice : got["choices"]) {
    EXPECT_EQ(choice["text"].get<std::string>().substr(0, 50), prompt);
    expect_prompt(choice["logprobs"], prompt, expected);
  }
  EXPECT_GT(server.service.state().counts.reused_tokens, 0);
  EXPECT_EQ(got["usage"]["prompt_tokens"], 50);
}

TEST(Api, OffsetsOfAnEchoCountCharacters) {
  Server server;
  const json choice = answer(
      server, "/v1/completions",
      R"({"prompt": "g\u00e9b", "max_tokens": 0, "echo": true, "logprobs": 0})")["choices"][0];
  EXPECT_EQ(choice["text"], "g\u00e9b");
  EXPECT_EQ(choice["logprobs"]["tokens"], json({"g", "bytes:\\xc3", "bytes:\\xa9", "b"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], json({0, 1, 1, 2}));
}

TEST(Api, APromptWithoutScoresIsAnError) {
  Server server;
  server.service.with_model([](LanguageModel& model) {
    const torch::NoGradGuard no_grad;
    model.named_parameters()["norm.weight"].fill_(std::numeric_limits<float>::quiet_NaN());
  });
  answer(server, "/v1/completions",
         R"({"prompt": "abc", "max_tokens": 0, "echo": true, "logprobs": 1})", 500);
}

}  // namespace
}  // namespace penstock::serve::api_test
