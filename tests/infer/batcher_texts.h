// Small models, orders of texts and their results, for the tests of the batcher.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/infer/batcher.h"
#include "penstock/models/make_model.h"
#include "tests/infer/support.h"

namespace penstock::batcher_test {

inline const Tokenizer& bytes() {
  static const auto tokenizer = make_tokenizer("bytes", {});
  return *tokenizer;
}

inline std::shared_ptr<LanguageModel> model_of(ModelConfig config, std::uint64_t seed = 21) {
  config.vocab = bytes().vocab_size();
  auto model = make_model(config, seed);
  model->eval();
  return model;
}

inline std::vector<TokenId> letters(std::size_t count, std::uint64_t seed) {
  std::vector<TokenId> out = testing::random_tokens(count, seed);
  for (TokenId& token : out) token = 'a' + token % 26;
  return out;
}

inline TextOrder order(std::vector<TokenId> prompt, std::int64_t tokens, std::uint64_t seed,
                       double temperature = 1.1) {
  return {.prompt = std::move(prompt),
          .options = {.max_tokens = tokens,
                      .sampling = {.temperature = temperature, .top_p = 0.97, .seed = seed}}};
}

/// The result of a text.
struct Heard {
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<GeneratedToken> written;
  std::optional<Finish> finish;
  std::string failure;
};

inline Batcher::Id add(Batcher& batcher, TextOrder wanted, Heard& heard) {
  wanted.token = [&heard](const GeneratedToken& token) {
    heard.tokens.push_back(token.token);
    heard.text += token.piece;
    heard.written.push_back(token);
  };
  wanted.done = [&heard](const Completion& completion, const std::string& rest) {
    EXPECT_EQ(completion.tokens, heard.tokens);
    heard.text += rest;
    EXPECT_EQ(completion.text, heard.text);
    EXPECT_FALSE(heard.finish.has_value());
    heard.finish = completion.finish;
  };
  wanted.failed = [&heard](const std::string& why) { heard.failure = why; };
  return batcher.add(std::move(wanted));
}

inline void run(Batcher& batcher) {
  for (int i = 0; i < 2000 && !batcher.idle(); ++i) batcher.step();
  ASSERT_TRUE(batcher.idle());
}

inline BatcherOptions small_batcher(std::int64_t prompt_tokens = 24) {
  return {.reader = {.sequences = 5, .kept = 3, .capacity = 128}, .prompt_tokens = prompt_tokens};
}

}  // namespace penstock::batcher_test
