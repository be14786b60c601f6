// Experts by token id, and the share of expert states that a change of the weights flips.
#include "penstock/analysis/token_experts.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <numeric>

#include "penstock/analysis/flips.h"
#include "penstock/base/error.h"
#include "penstock/eval/perplexity.h"
#include "penstock/train/initial_model.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/train/small_run.h"

namespace penstock::analysis {
namespace {

class TokenExpertsTest : public ::testing::Test {
 protected:
  std::shared_ptr<LanguageModel> model(const std::string& method) const {
    Recipe recipe = testing::small_recipe(method, 4, 16);
    recipe.model.vocab = corpus_.vocab_size();
    return initial_model(recipe);
  }

  testing::TempDirectory directory_;
  Corpus corpus_ = testing::small_corpus(directory_.path());
};

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST_F(TokenExpertsTest, HashSendsEachTokenToTheExpertOfItsNumber) {
  const auto counted = count_token_experts(*model("hash"), corpus_,
                                           {.split = Split::kValidation, .sequence_length = 16})
                           .tokens;
  EXPECT_GT(counted.tokens, 100);
  EXPECT_EQ(sum(counted.count), static_cast<double>(counted.tokens));
  EXPECT_EQ(counted.active, counted.count);  // one expert for each token, in both layers
  for (std::size_t e = 0; e < 4; ++e)
    for (std::size_t id = 0; id < counted.count.size(); ++id)
      for (std::size_t layer = 0; layer < 2; ++layer)
        EXPECT_EQ(counted.by_expert(layer, e, id), id % 4 == e ? counted.count[id] : 0);
}

TEST_F(TokenExpertsTest, AddsUpToTheEvaluationsLoad) {
  const auto relu = model("remoe");
  const auto counted =
      count_token_experts(*relu, corpus_, {.split = Split::kValidation, .sequence_length = 16})
          .tokens;
  const Evaluation evaluation =
      evaluate(*relu, corpus_, {.split = Split::kValidation, .sequence_length = 16});
  ASSERT_EQ(counted.tokens, evaluation.total.tokens);
  double both_layers = 0;
  for (std::size_t e = 0; e < 4; ++e) {
    double all = 0;
    for (std::size_t id = 0; id < counted.count.size(); ++id) all += counted.by_expert(1, e, id);
    EXPECT_EQ(all, evaluation.routing.assignments[1][e]) << e;
    both_layers += evaluation.routing.assignments[0][e] + evaluation.routing.assignments[1][e];
  }
  EXPECT_NEAR(sum(counted.active), both_layers / 2, 1e-9 * both_layers);
}

TEST(TokenCounter, ATokensSurprisalContinuesAlongAStream) {
  ModelConfig config = testing::small_recipe("hash", 4, 16).model;
  config.vocab = 8;
  config.layers = 1;
  config.moe.experts = 2;
  std::vector<double> surprisals, active;
  TokenCounter counter(config.resolved(), [&](const TokenPlace& place) {
    surprisals.push_back(place.surprisal);
    active.push_back(place.active[0]);
  });
  const auto read = [&](const Batch& batch, std::vector<int> experts, std::vector<double> nats) {
    const at::Tensor mask = torch::tensor(experts).view({-1, 2}).to(at::kBool);  // [T, E]
    counter.routed(0, make_plan(at::ones(mask.sizes()), mask));
    counter.scored(batch, nats);
  };
  // Two streams side by side, and then one stream that begins anew.
  read({.sequences = 2, .length = 2, .inputs = {1, 2, 3, 4}}, {1, 1, 0, 0, 0, 1, 1, 0},
       {0.1, 0.2, 0.3, 0.4});
  read({.sequences = 2, .length = 2, .fresh = false, .inputs = {5, 6, 7, 1}},
       {1, 0, 1, 0, 1, 0, 0, 1}, {0.5, 0.6, 0.7, 0.8});
  read({.sequences = 1, .length = 2, .inputs = {2, 3}}, {1, 0, 1, 0}, {0.9, 1.0});
  for (const std::size_t first : {0u, 2u, 8u}) {
    EXPECT_TRUE(std::isnan(surprisals.at(first))) << first;
    surprisals[first] = 0;
  }
  EXPECT_EQ(surprisals, (std::vector<double>{0, 0.1, 0, 0.3, 0.2, 0.5, 0.4, 0.7, 0, 0.9}));
  EXPECT_EQ(active, (std::vector<double>{2, 0, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(counter.counted().tokens, 10);
  EXPECT_EQ(counter.counted().count, (std::vector<double>{0, 2, 2, 2, 1, 1, 1, 1}));
  EXPECT_EQ(counter.counted().active, (std::vector<double>{0, 3, 1, 2, 1, 1, 1, 1}));
  EXPECT_EQ(counter.counted().by_expert(0, 0, 1), 1);
  EXPECT_EQ(counter.counted().by_expert(0, 1, 1), 2);
}

TEST_F(TokenExpertsTest, RefusesWhatAssignsNothing) {
  EXPECT_THROW(count_token_experts(*model("dense"), corpus_, {.sequence_length = 16}), Error);
  testing::expect_error(
      [&] { count_token_experts(*model("lory"), corpus_, {.sequence_length = 16}); },
      {"nothing is assigned"});
  EXPECT_THROW(active_experts(*model("dense"), corpus_, {}), Error);
}

TEST_F(TokenExpertsTest, ListsGoBySharesOfTheTokenAndOfTheExpert) {
  const auto counted = count_token_experts(*model("hash"), corpus_,
                                           {.split = Split::kValidation, .sequence_length = 16})
                           .tokens;
  // Hashing by the id gives each token the share 1. An expert e gets the ids with id mod 4 = e.
  const auto surest = surest_tokens(counted, corpus_.tokenizer(), 1, 1, 3);
  const auto commonest = commonest_tokens(counted, corpus_.tokenizer(), 1, 1, 300);
  ASSERT_EQ(surest.size(), 3u);
  double shares = 0, places = 0;
  for (const ListedToken& one : commonest) places += one.count;
  for (const ListedToken& one : commonest) {
    EXPECT_EQ(one.id % 4, 1);
    EXPECT_NEAR(one.value, one.count / places, 1e-12);
    shares += one.value;
  }
  EXPECT_NEAR(shares, 1, 1e-12);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(surest[i].value, 1);
    EXPECT_EQ(surest[i].id, commonest[i].id);  // tokens with equal shares are ordered by frequency
  }
  EXPECT_EQ(commonest[0].text, "e");  // id 101; more frequent than a, i, m and u
}

TEST_F(TokenExpertsTest, AListNamesATokenWithoutText) {
  const auto counted = count_token_experts(*model("hash"), corpus_,
                                           {.split = Split::kValidation, .sequence_length = 16})
                           .tokens;
  const TokenId end = corpus_.tokenizer().end_of_document();
  const auto listed = listed_tokens(counted, corpus_.tokenizer(), {static_cast<std::size_t>(end)},
                                    1, [](std::size_t) { return 1.0; });
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].text, "<end of document>");
}

TEST_F(TokenExpertsTest, ATop1SwitchTurnsTwoStates) {
  const auto top1 = model("topk");
  const CalibrationOptions options{.tokens = 64, .sequence_length = 16};
  const at::Tensor before = active_experts(*top1, corpus_, options);
  ASSERT_EQ(before.sizes(), (std::vector<std::int64_t>{2, 64, 4}));
  EXPECT_TRUE(torch::equal(before.sum(2), at::ones({2, 64}, at::kLong)));
  EXPECT_EQ(flip_rate(before, active_experts(*top1, corpus_, options)), 0);
  {
    // Negate the second layer's logits: its last choice becomes its first.
    const torch::NoGradGuard no_grad;
    for (auto& item : top1->moe_layers()[1]->router().named_parameters()) item.value().neg_();
  }
  const at::Tensor after = active_experts(*top1, corpus_, options);
  EXPECT_TRUE(torch::equal(after[0], before[0]));
  // Each token of that layer leaves one expert and joins another: 2 of its 4 states flip.
  EXPECT_EQ(flip_rate(before, after), 0.25);
}

}  // namespace
}  // namespace penstock::analysis
