// Generation as a whole, with the bytes tokenizer and random models: what ends a text, what does
// not change a text, and what is refused.
#include "penstock/infer/generate.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/data/vocabulary.h"
#include "penstock/models/make_model.h"
#include "penstock/ops/dispatch.h"
#include "tests/base/error_of.h"
#include "tests/infer/support.h"

namespace penstock {
namespace {

using testing::tiny;

std::shared_ptr<const Tokenizer> bytes() { return make_tokenizer("bytes", {}); }

std::shared_ptr<LanguageModel> model_of(ModelConfig config, std::uint64_t seed = 21) {
  config.vocab = bytes()->vocab_size();
  auto model = make_model(config, seed);
  model->eval();
  return model;
}

GenerateOptions warm(std::int64_t tokens, std::uint64_t seed = 1) {
  return {.max_tokens = tokens, .sampling = {.temperature = 1.2, .seed = seed}};
}

TEST(Generate, GreedyTokensAreThoseOfWholePasses) {
  for (const char* method : {"dense", "topk", "remoe"}) {
    const auto model = model_of(tiny(method));
    const auto out = generate(model, *bytes(), {"Abc def"}, {.max_tokens = 20});
    std::vector<TokenId> tokens = prompt_tokens(*bytes(), "Abc def");
    EXPECT_EQ(out.speed.prompt_tokens, 7);
    ASSERT_FALSE(out.completions[0].tokens.empty());
    for (const TokenId token : out.completions[0].tokens) {
      EXPECT_EQ(token, testing::whole(*model, tokens)[-1].argmax().item<std::int64_t>()) << method;
      tokens.push_back(token);
    }
  }
}

TEST(Generate, PenaltiesCountTheTokensSoFar) {
  const auto model = model_of(tiny("topk"));
  const std::vector<TokenId> prompt = prompt_tokens(*bytes(), "Abc def");
  GenerateOptions options{.max_tokens = 20};
  options.adjustments = {.repetition_penalty = 1.3, .frequency_penalty = 0.2, .bias = {{'q', 0.4}}};
  const auto out = generate(model, *bytes(), {"Abc def"}, options);
  std::vector<TokenId> tokens = prompt;
  ASSERT_FALSE(out.completions[0].tokens.empty());
  for (const TokenId token : out.completions[0].tokens) {
    const at::Tensor logits = testing::whole(*model, tokens)[-1].to(at::kDouble).clone();
    auto* const logit = logits.data_ptr<double>();
    for (TokenId id = 0; id < bytes()->vocab_size(); ++id) {
      const auto all = std::ranges::count(tokens, id);
      if (all > 0) logit[id] *= logit[id] > 0 ? 1 / 1.3 : 1.3;
      logit[id] -= 0.2 * static_cast<double>(all - std::ranges::count(prompt, id));
    }
    logit['q'] += 0.4;
    EXPECT_EQ(token, logits.argmax().item<std::int64_t>());
    tokens.push_back(token);
  }
  EXPECT_NE(out.completions[0].tokens,
            generate(model, *bytes(), {"Abc def"}, {.max_tokens = 20}).completions[0].tokens);
}

TEST(Generate, ATextIsTheSameAloneAndBesideOthers) {
  for (const char* method : {"dense", "topk", "remoe", "switch", "thor", "noisy-topk"}) {
    SCOPED_TRACE(method);
    const auto model = model_of(tiny(method));
    const std::vector<std::string> prompts{"First text, a longer one", "B", "and a third"};
    GenerateOptions options = warm(24);
    options.samples = 7;  // 21 texts: more than a group of 16
    const auto all = generate(model, *bytes(), prompts, options);
    ASSERT_EQ(all.completions.size(), 21u);
    EXPECT_NE(all.completions[0].tokens, all.completions[1].tokens);
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      options.samples = 3;
      const auto alone = generate(model, *bytes(), {prompts[p]}, options);
      for (std::size_t s = 0; s < 3; ++s) {
        EXPECT_EQ(alone.completions[s].tokens, all.completions[p * 7 + s].tokens) << p << " " << s;
        EXPECT_EQ(alone.completions[s].text, all.completions[p * 7 + s].text);
      }
    }
    ops::set_threads(1);
    EXPECT_EQ(generate(model, *bytes(), prompts, options).completions[8].tokens,
              all.completions[16].tokens);
    ops::set_threads(0);
  }
}

TEST(Generate, TransformerXlToo) {
  const auto model = model_of(testing::tiny_xl(12));
  const auto all =
      generate(model, *bytes(), {"One", "Another prompt, longer than a segment"}, warm(60));
  EXPECT_EQ(all.completions[0].tokens,
            generate(model, *bytes(), {"One"}, warm(60)).completions[0].tokens);
  EXPECT_NE(name(all.completions[0].finish), "context");
}

TEST(Generate, ListenersHearTheTextThatIsReturned) {
  const auto model = model_of(tiny("topk"));
  std::vector<std::string> heard(2);
  std::vector<std::size_t> done;
  const auto out = generate(
      model, *bytes(), {"x", "y"}, warm(40),
      {.text = [&](const Completion& text, std::string_view piece) { heard[text.prompt] += piece; },
       .done = [&](const Completion& text) { done.push_back(text.prompt); }});
  EXPECT_EQ(heard[0], out.completions[0].text);
  EXPECT_EQ(heard[1], out.completions[1].text);
  EXPECT_EQ(done.size(), 2u);
}

TEST(Generate, TheEndOfADocumentEndsAText) {
  const auto model = model_of(tiny("dense"));
  const auto tokenizer = bytes();
  const TokenId end = tokenizer->end_of_document();
  ASSERT_GE(end, 0);
  GenerateOptions options = warm(2000);
  options.sampling.temperature = 50;  // near uniform: an end comes within some hundreds of tokens
  const auto out = generate(model, *tokenizer, {"q"}, options);
  EXPECT_EQ(out.completions[0].finish, Finish::end_of_document);
  EXPECT_EQ(std::ranges::count(out.completions[0].tokens, end), 0);
  EXPECT_LT(out.completions[0].tokens.size(), 2000u);
}

TEST(Generate, StopStringsEndAText) {
  const auto model = model_of(tiny("dense"));
  GenerateOptions options = warm(400);
  const auto free = generate(model, *bytes(), {"q"}, options).completions[0];
  ASSERT_GT(free.text.size(), 40u);
  // Finds a pair of ASCII characters in the text.
  std::size_t at = 20;
  while (static_cast<unsigned char>(free.text[at]) >= 0x80 ||
         static_cast<unsigned char>(free.text[at + 1]) >= 0x80)
    ++at;
  const std::string pair = free.text.substr(at, 2);
  options.stop = {"this never comes, or so one hopes", pair};
  const auto out = generate(model, *bytes(), {"q"}, options).completions[0];
  EXPECT_EQ(out.finish, Finish::stop);
  EXPECT_EQ(out.text, free.text.substr(0, free.text.find(pair)));
}

TEST(Generate, EndsAtTheModelsContext) {
  ModelConfig config = tiny("dense");
  config.context = 16;
  const auto model = model_of(config);
  GenerateOptions options = warm(400, 2);
  const auto out = generate(model, *bytes(), {"0123456789"}, options).completions[0];
  ASSERT_EQ(out.finish, Finish::context);
  EXPECT_EQ(out.tokens.size(), 7u);  // 16 are read, and the token after the last is written
  options.max_tokens = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(generate(model, *bytes(), {"0123456789"}, options).completions[0].tokens, out.tokens);
  EXPECT_EQ(generate(model, *bytes(), {"0123456789abcdef"}, options).completions[0].tokens.size(),
            1u);
  EXPECT_THROW(generate(model, *bytes(), {"0123456789abcdefg"}, options), Error);
}

TEST(Generate, InterruptionsKeepWhatThereIs) {
  const auto model = model_of(tiny("dense"));
  int asked = 0;
  const auto out = generate(model, *bytes(), {"q", "r"}, warm(400),
                            {.interrupted = [&] { return ++asked > 12; }});
  EXPECT_EQ(out.completions[0].finish, Finish::interrupted);
  EXPECT_EQ(out.completions[0].tokens.size(), 11u);  // asked before each prompt and step
}

TEST(Generate, AnEmptyPromptBeginsADocument) {
  const auto tokenizer = bytes();
  EXPECT_EQ(prompt_tokens(*tokenizer, ""), std::vector<TokenId>{tokenizer->end_of_document()});
  EXPECT_EQ(prompt_tokens(*tokenizer, "ab"), (std::vector<TokenId>{'a', 'b'}));
  EXPECT_THROW(prompt_tokens(*make_tokenizer("bytes", {}, false), ""), Error);
  EXPECT_THROW(prompt_tokens(*tokenizer, "a\xff"), Error);
}

/// A vocabulary of four words. Each word includes the space before it, as in SentencePiece.
class Words : public Tokenizer {
 public:
  std::string spec() const override { return "test"; }
  std::int64_t vocab_size() const override { return 4; }
  TokenId end_of_document() const override { return -1; }
  using Tokenizer::decode;
  using Tokenizer::encode;
  void encode(std::string_view, std::vector<TokenId>& ids) const override { ids.push_back(3); }
  void decode(TokenId, std::string& text) const override { text += " w"; }
  std::map<std::string, std::string> files() const override { return {}; }
  std::optional<Vocabulary> vocabulary() const override {
    return Vocabulary{.kind = Vocabulary::Kind::kSentencePieceBpe, .bos = 1};
  }
};

TEST(Generate, TheSpaceBeforeADocumentsFirstWordIsLeftOut) {
  ModelConfig config = tiny("dense");
  config.vocab = 4;
  const auto out = generate(make_model(config, 1), Words(), {"", "a"}, {.max_tokens = 3});
  EXPECT_EQ(out.completions[0].text, "w w w");
  EXPECT_EQ(out.completions[1].text, " w w w");
  EXPECT_EQ(prompt_tokens(Words(), ""), std::vector<TokenId>{1});
  EXPECT_EQ(prompt_tokens(Words(), "a"), std::vector<TokenId>{3});  // there is no add_bos
}

TEST(Generate, WhatCannotBeIsAnError) {
  const auto model = model_of(tiny("dense"));
  const auto expect_error = [&](const GenerateOptions& options, const char* words) {
    testing::expect_error([&] { generate(model, *bytes(), {"a"}, options); }, {words});
  };
  expect_error({.max_tokens = 0}, "nothing to generate");
  expect_error({.samples = 2}, "temperature");
  expect_error({.sampling = {.temperature = -1}}, "temperature");
  expect_error({.stop = {""}}, "empty");
  EXPECT_THROW(generate(model_of(tiny("lory")), *bytes(), {"a"}, {}), Error);
  ModelConfig small = tiny("dense");
  small.vocab = 100;
  EXPECT_THROW(generate(make_model(small, 1), *bytes(), {"a"}, {}), Error);
}

}  // namespace
}  // namespace penstock
