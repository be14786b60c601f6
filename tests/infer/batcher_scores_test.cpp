// The scores of a prompt's tokens against whole passes over it, however the prompt is divided and
// whatever earlier prompts left.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/infer/batcher.h"
#include "penstock/infer/session.h"
#include "tests/base/error_of.h"
#include "tests/infer/batcher_texts.h"

namespace penstock::batcher_test {
namespace {

using testing::tiny;

/// What a text with scores gives.
struct Scored {
  std::vector<TokenScore> prompt;
  std::vector<GeneratedToken> written;
  std::optional<Completion> completion;
  std::string failure;
};

TextOrder scored_order(std::vector<TokenId> prompt, std::int64_t likeliest, bool reads_only) {
  TextOrder out = order(std::move(prompt), 4, 1, 0);
  out.likeliest = likeliest;
  out.scores_all = true;
  out.reads_only = reads_only;
  return out;
}

void add_scored(Batcher& batcher, TextOrder wanted, Scored& out) {
  wanted.prompt_scores = [&out](const std::vector<TokenScore>& scores) {
    EXPECT_TRUE(out.prompt.empty() && out.written.empty());  // once, before the first token
    out.prompt = scores;
  };
  wanted.token = [&out](const GeneratedToken& token) { out.written.push_back(token); };
  wanted.done = [&out](const Completion& completion, const std::string&) {
    out.completion = completion;
  };
  wanted.failed = [&out](const std::string& why) { out.failure = why; };
  batcher.add(std::move(wanted));
}

Scored scored(Batcher& batcher, const TextOrder& wanted) {
  Scored out;
  add_scored(batcher, wanted, out);
  run(batcher);
  return out;
}

/// Compares with log-probabilities [T, V] f64 of what follows each token of the prompt.
void expect_scores(const std::vector<TokenScore>& got, const std::vector<TokenId>& prompt,
                   const at::Tensor& expected, std::int64_t likeliest) {
  ASSERT_EQ(got.size() + 1, prompt.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("token " + std::to_string(i + 1));
    const at::Tensor row = expected[static_cast<std::int64_t>(i)];
    EXPECT_NEAR(got[i].logprob, row[prompt[i + 1]].item<double>(), 1e-4);
    const auto [values, ids] = row.topk(std::max<std::int64_t>(1, likeliest));
    ASSERT_EQ(std::ssize(got[i].likeliest), likeliest);
    for (std::int64_t n = 0; n < likeliest; ++n)
      EXPECT_NEAR(got[i].likeliest[static_cast<std::size_t>(n)].logprob, values[n].item<double>(),
                  1e-4);
  }
}

void expect_equal(const std::vector<TokenScore>& a, const std::vector<TokenScore>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].logprob, b[i].logprob) << i;
    ASSERT_EQ(a[i].likeliest.size(), b[i].likeliest.size()) << i;
    for (std::size_t n = 0; n < a[i].likeliest.size(); ++n) {
      EXPECT_EQ(a[i].likeliest[n].token, b[i].likeliest[n].token) << i;
      EXPECT_EQ(a[i].likeliest[n].logprob, b[i].likeliest[n].logprob) << i;
    }
  }
}

at::Tensor log_probabilities(const at::Tensor& logits) {
  return torch::log_softmax(logits.to(torch::kDouble), -1);
}

TEST(Batcher, PromptsHaveTheScoresOfAWholePass) {
  const std::vector<TokenId> prompt = letters(70, 4);
  for (const char* method : {"dense", "topk", "remoe", "switch"}) {
    SCOPED_TRACE(method);
    const auto model = model_of(tiny(method));
    const at::Tensor expected = log_probabilities(testing::whole(*model, prompt));
    for (const std::int64_t likeliest : {0, 3})
      for (const std::int64_t prompt_tokens : {7, 200}) {
        Batcher batcher(model, bytes(), small_batcher(prompt_tokens));
        expect_scores(scored(batcher, scored_order(prompt, likeliest, false)).prompt, prompt,
                      expected, likeliest);
      }
  }
}

TEST(Batcher, PromptsOfModelsWithMemoryAreScoredInSegments) {
  const auto model = model_of(testing::tiny_xl(64));  // segments of 16 tokens
  const std::vector<TokenId> prompt = letters(70, 4);
  std::vector<at::Tensor> after;
  for (std::size_t count = 1; count <= prompt.size(); ++count)
    after.push_back(
        make_session(model, {.capacity = 100})->begin(0, std::span(prompt).first(count)).clone());
  Batcher batcher(model, bytes(), small_batcher());
  expect_scores(scored(batcher, scored_order(prompt, 2, true)).prompt, prompt,
                log_probabilities(torch::stack(after)), 2);
}

TEST(Batcher, OnlyScoredTokensAreReusedForScores) {
  const auto model = model_of(tiny("topk"));
  const auto fresh = [&](const TextOrder& wanted) {
    Batcher batcher(model, bytes(), small_batcher());
    return scored(batcher, wanted).prompt;
  };
  Batcher batcher(model, bytes(), small_batcher(10));
  auto reused = [&, before = std::int64_t{0}]() mutable {
    const std::int64_t now = batcher.counts().reused_tokens;
    return now - std::exchange(before, now);
  };
  const TextOrder first = scored_order(letters(60, 1), 3, true);
  expect_equal(scored(batcher, first).prompt, fresh(first));
  EXPECT_EQ(reused(), 0);
  expect_equal(scored(batcher, first).prompt, fresh(first));
  EXPECT_EQ(reused(), 59);
  TextOrder branch = first;  // another token 40: token 39 is read again for its score
  branch.likeliest = 1;
  branch.prompt[40] = branch.prompt[40] == 'a' ? 'b' : 'a';
  expect_equal(scored(batcher, branch).prompt, fresh(branch));
  EXPECT_EQ(reused(), 39);
  TextOrder wider = branch;  // more likeliest tokens than the branch has
  wider.likeliest = 2;
  expect_equal(scored(batcher, wider).prompt, fresh(wider));
  EXPECT_EQ(reused(), 39);
  Heard plain;
  add(batcher, order(letters(60, 1), 3, 1), plain);
  run(batcher);
  EXPECT_EQ(reused(), 59);
  add(batcher, order(letters(50, 2), 3, 1), plain = {});
  run(batcher);
  reused();
  const TextOrder unscored = scored_order(letters(50, 2), 0, true);
  expect_equal(scored(batcher, unscored).prompt, fresh(unscored));
  EXPECT_EQ(reused(), 0);
}

TEST(Batcher, TextsOfOnePromptScoreItOnce) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher(10));
  std::vector<Scored> out(4);
  const TextOrder wanted = scored_order(letters(90, 1), 2, false);
  Heard beside;
  add(batcher, order(letters(30, 3), 20, 3), beside);
  for (Scored& one : out) add_scored(batcher, wanted, one);
  run(batcher);
  for (const Scored& one : out) {
    expect_equal(one.prompt, out[0].prompt);
    EXPECT_EQ(one.written.size(), 4u);
  }
  EXPECT_GE(batcher.counts().reused_tokens, 3 * 50);
  EXPECT_EQ(batcher.counts().reused_tokens + batcher.counts().prompt_tokens, 30 + 4 * 90);
}

TEST(Batcher, ATextMayEndWithItsPrompt) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher());
  const Scored long_one = scored(batcher, scored_order(letters(128, 1), 1, true));
  EXPECT_EQ(long_one.prompt.size(), 127u);
  const Scored one_token = scored(batcher, scored_order(letters(1, 2), 1, true));
  EXPECT_TRUE(one_token.prompt.empty());
  for (const Scored& one : {long_one, one_token}) {
    EXPECT_TRUE(one.written.empty());
    ASSERT_TRUE(one.completion.has_value());
    EXPECT_EQ(one.completion->finish, Finish::length);
    EXPECT_TRUE(one.completion->text.empty());
  }
  EXPECT_EQ(batcher.counts().written_tokens, 0);
}

TEST(Batcher, TheEndOfADocumentIsShownAmongScores) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher());
  TextOrder wanted = scored_order(letters(20, 1), 2, false);
  const GeneratedToken first = scored(batcher, wanted).written.at(0);
  wanted.ends = {first.token};
  const Scored ended = scored(batcher, wanted);
  ASSERT_EQ(ended.written.size(), 1u);
  EXPECT_EQ(ended.written[0].token, first.token);
  EXPECT_EQ(ended.written[0].score.logprob, first.score.logprob);
  EXPECT_TRUE(ended.written[0].piece.empty());
  EXPECT_EQ(ended.completion->finish, Finish::end_of_document);
  EXPECT_TRUE(ended.completion->tokens.empty());
  wanted.scores_all = false;
  EXPECT_TRUE(scored(batcher, wanted).written.empty());
}

TEST(Batcher, APromptWithoutScoresFailsAlone) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher());
  {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["norm.weight"].fill_(std::nan(""));
  }
  const Scored failed = scored(batcher, scored_order(letters(30, 1), 1, true));
  testing::expect_says(failed.failure, {"before token", "overflow"});
  EXPECT_TRUE(failed.prompt.empty());
  EXPECT_FALSE(failed.completion.has_value());
  EXPECT_TRUE(batcher.idle());
}

}  // namespace
}  // namespace penstock::batcher_test
