// A draft changes the speed of a text and nothing else.
#include "penstock/infer/draft.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/infer/draft_check.h"
#include "penstock/infer/generate.h"
#include "penstock/models/make_model.h"
#include "tests/base/error_of.h"
#include "tests/infer/support.h"

namespace penstock {
namespace {

using testing::tiny;

std::shared_ptr<const Tokenizer> draft_bytes() { return make_tokenizer("bytes", {}); }

std::shared_ptr<LanguageModel> drafting_model(ModelConfig config, std::uint64_t seed) {
  config.vocab = draft_bytes()->vocab_size();
  auto model = make_model(config, seed);
  model->eval();
  return model;
}

/// The model with slightly changed weights, like a draft of it.
std::shared_ptr<LanguageModel> nearly(const ModelConfig& config, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  auto model = drafting_model(config, seed);
  torch::manual_seed(3);
  for (const at::Tensor& weight : model->parameters()) weight.add_(torch::randn_like(weight), 0.01);
  return model;
}

struct Texts {
  std::vector<std::string> text;
  std::vector<Finish> finish;
  friend bool operator==(const Texts&, const Texts&) = default;
};

Texts of(const Generation& generation) {
  Texts out;
  for (const Completion& completion : generation.completions) {
    out.text.push_back(completion.text);
    out.finish.push_back(completion.finish);
  }
  return out;
}

const std::vector<std::string> kPrompts{"Abc", "A prompt that is longer than sixteen tokens"};

TEST(Draft, TheTextIsThatWithoutADraft) {
  for (const char* method : {"dense", "topk", "remoe"})
    for (const double temperature : {0.0, 1.2})
      for (const std::int64_t tokens : {1, 4, 15}) {
        SCOPED_TRACE(concat(method, " at ", temperature, ", ", tokens, " drafted tokens"));
        const auto model = drafting_model(tiny(method), 21);
        GenerateOptions options{.max_tokens = 40,
                                .sampling = {.temperature = temperature, .seed = 5}};
        options.samples = temperature > 0 ? 2 : 1;
        const Generation plain = generate(model, *draft_bytes(), kPrompts, options);
        options.draft = nearly(tiny(method), 21);
        options.draft_tokens = tokens;
        const Generation drafted = generate(model, *draft_bytes(), kPrompts, options);
        EXPECT_EQ(of(drafted), of(plain));
        EXPECT_GT(drafted.speed.accepted_tokens, 0);
        EXPECT_LT(drafted.speed.accepted_tokens, drafted.speed.drafted_tokens);
        EXPECT_EQ(drafted.speed.steps_tokens, plain.speed.steps_tokens);
        EXPECT_EQ(plain.speed.drafted_tokens, 0);
      }
}

TEST(Draft, OfAnotherModelIsOnlySlower) {
  ModelConfig small = tiny("dense");
  small.layers = 1;
  const auto model = drafting_model(tiny("topk"), 21);
  GenerateOptions options{.max_tokens = 30, .sampling = {.temperature = 1, .seed = 9}};
  const Texts plain = of(generate(model, *draft_bytes(), kPrompts, options));
  options.draft = drafting_model(small, 99);
  EXPECT_EQ(of(generate(model, *draft_bytes(), kPrompts, options)), plain);
}

/// The prompt's pass gives 1 token. Each pass of 4 drafted tokens gives 5, so after 8 passes there
/// are 41.
TEST(Draft, TheModelItselfIsAlwaysRight) {
  for (const double temperature : {0.0, 0.8}) {
    const auto model = drafting_model(tiny("topk"), 21);
    const GenerateOptions options{
        .max_tokens = 41, .sampling = {.temperature = temperature, .seed = 5}, .draft = model};
    const Generation out = generate(model, *draft_bytes(), {"Abc"}, options);
    ASSERT_EQ(out.completions[0].finish, Finish::length);
    EXPECT_EQ(out.speed.drafted_tokens, 32);
    EXPECT_EQ(out.speed.accepted_tokens, 32);
    EXPECT_EQ(out.speed.steps_tokens, 40);
  }
}

TEST(Draft, WhatEndsATextEndsItInTheMidstOfADraft) {
  ModelConfig config = tiny("topk");
  config.context = 32;
  const auto model = drafting_model(config, 21);
  GenerateOptions options{.max_tokens = 100};
  const Generation plain = generate(model, *draft_bytes(), {"Abc"}, options);
  EXPECT_EQ(plain.completions[0].finish, Finish::context);
  options.draft = model;
  for (const std::int64_t tokens : {3, 4, 15}) {
    options.draft_tokens = tokens;
    EXPECT_EQ(of(generate(model, *draft_bytes(), {"Abc"}, options)), of(plain));
  }
  for (std::size_t at = 1; at < 6; ++at) {
    GenerateOptions stopped = options;
    stopped.stop = {plain.completions[0].text.substr(at, 2)};
    const Texts with = of(generate(model, *draft_bytes(), {"Abc"}, stopped));
    stopped.draft = nullptr;
    EXPECT_EQ(with, of(generate(model, *draft_bytes(), {"Abc"}, stopped)));
  }
}

TEST(Draft, ADraftOfAShorterContextFallsSilent) {
  ModelConfig brief = tiny("topk");
  brief.context = 20;
  const auto model = drafting_model(tiny("topk"), 21);
  GenerateOptions options{.max_tokens = 40};
  const Texts plain = of(generate(model, *draft_bytes(), kPrompts, options));
  options.draft = drafting_model(brief, 21);
  const Generation drafted = generate(model, *draft_bytes(), kPrompts, options);
  EXPECT_EQ(of(drafted), plain);
  EXPECT_EQ(drafted.speed.accepted_tokens, drafted.speed.drafted_tokens);
  EXPECT_GT(drafted.speed.drafted_tokens, 0);
  EXPECT_LE(drafted.speed.drafted_tokens, 20);
}

void expect_refused(const std::shared_ptr<LanguageModel>& model, const GenerateOptions& options,
                    const std::string& reason) {
  testing::expect_error([&] { generate(model, *draft_bytes(), {"Abc"}, options); }, {reason});
}

TEST(Draft, WhatCannotDraftIsRefused) {
  const auto model = drafting_model(tiny("topk"), 1);
  ModelConfig narrow = tiny("dense");
  narrow.vocab = 100;
  expect_refused(model, {.draft = make_model(narrow, 1)}, "it was trained with another one");
  expect_refused(model, {.draft = model, .draft_tokens = 16}, "give 1 to 15");
  expect_refused(model, {.draft = drafting_model(testing::tiny_xl(12), 1)}, "Transformer-XL");
  expect_refused(drafting_model(testing::tiny_xl(12), 1), {.draft = model}, "Transformer-XL");
  expect_refused(drafting_model(tiny("switch"), 1), {.draft = model}, "what else is in a pass");
  expect_refused(model, {.draft = drafting_model(tiny("lory"), 1)},
                 "is not causal: where a token goes depends on tokens after it, which a text that "
                 "is being written does not have yet");
}

TEST(Draft, AnotherTokenizerIsRefused) {
  const std::vector<std::string_view> texts{"abab abab ab ab abab abcabc"};
  const auto other = make_tokenizer("byte-vocabulary", texts);
  EXPECT_THROW(check_same_ids(*draft_bytes(), *other), Error);
  EXPECT_NO_THROW(check_same_ids(*other, *make_tokenizer("byte-vocabulary", texts)));
  // The same number of ids, in another order.
  const std::vector<std::string_view> reordered{"ccc ccc ccc bb bb a"};
  const auto third = make_tokenizer("byte-vocabulary", reordered);
  ASSERT_EQ(third->vocab_size(), other->vocab_size());
  EXPECT_THROW(check_same_ids(*other, *third), Error);
}

}  // namespace
}  // namespace penstock
