// Scores of requests. They equal the log-softmax of whole sequences, however computation is shared.
// Results with scores given by hand are also tested.
#include "penstock/tasks/scoring.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/eval/passes.h"
#include "penstock/models/make_model.h"
#include "penstock/tasks/bundles.h"
#include "penstock/tasks/compare.h"
#include "penstock/tasks/evaluate.h"
#include "tests/models/tiny_decoder.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

std::shared_ptr<LanguageModel> small_model(const std::string& method) {
  torch::manual_seed(5);
  return make_model(testing::tiny_decoder(method, /*context=*/64), 1);
}

/// Items with a few requests that share a long beginning. Some requests have equal lengths.
std::vector<std::vector<TokenRequest>> some_items() {
  std::vector<std::vector<TokenRequest>> out;
  std::int32_t state = 7;
  const auto draw = [&] { return (state = (state * 75 + 74) % 65537) % 12; };
  for (const std::size_t common : {20u, 9u, 20u, 3u, 30u}) {
    std::vector<TokenId> beginning;
    for (std::size_t i = 0; i < common; ++i) beginning.push_back(draw());
    out.emplace_back();
    for (const std::size_t rest : {1u, 4u, 1u, 18u}) {
      TokenRequest request{.ids = beginning, .scored_from = common};
      for (std::size_t i = 0; i < rest; ++i) request.ids.push_back(draw());
      if (common == 30) request.scored_from = 1;
      out.back().push_back(request);
    }
  }
  return out;
}

RequestScore by_hand(LanguageModel& model, const TokenRequest& request) {
  torch::NoGradGuard no_grad;
  model.eval();
  const std::vector<std::int64_t> ids(request.ids.begin(), request.ids.end());
  const std::int64_t length = std::ssize(ids) - 1;
  const auto output =
      hidden_pass(model, {.tokens = torch::tensor(ids).narrow(0, 0, length).unsqueeze(0)},
                  whole_segments(model.config(), length), {});
  const at::Tensor logs = torch::log_softmax(model.logits(output.hidden).to(at::kDouble), -1);
  RequestScore out;
  for (std::size_t i = request.scored_from; i < ids.size(); ++i) {
    const at::Tensor row = logs[static_cast<std::int64_t>(i) - 1];
    out.loglikelihood += row[ids[i]].item<double>();
    out.greedy = out.greedy && row.argmax().item<std::int64_t>() == ids[i];
  }
  return out;
}

TEST(ScoreItems, AreTheLogSoftmaxHoweverBeginningsAreShared) {
  for (const char* method : {"dense", "topk", "remoe", "switch", "expert-choice", "lory"}) {
    SCOPED_TRACE(method);
    const auto model = small_model(method);
    const auto items = some_items();
    const bool was_training = model->is_training();
    for (const bool share : {true, false}) {
      const auto scores = score_items(*model, items, {.most_tokens = 64, .share_prefixes = share});
      ASSERT_EQ(scores.size(), items.size());
      for (std::size_t i = 0; i < items.size(); ++i)
        for (std::size_t r = 0; r < items[i].size(); ++r) {
          const RequestScore known = by_hand(*model, items[i][r]);
          EXPECT_NEAR(scores[i][r].loglikelihood, known.loglikelihood, 2e-4);
          EXPECT_EQ(scores[i][r].greedy, known.greedy);
        }
    }
    model->train(was_training);
  }
}

TEST(ScoreItems, ShareOnlyWhereATokenSeesThoseBeforeItAlone) {
  EXPECT_TRUE(can_share_prefixes(*small_model("dense")));
  EXPECT_TRUE(can_share_prefixes(*small_model("remoe")));
  EXPECT_TRUE(can_share_prefixes(*small_model("expert-choice")));  // it chooses by thresholds
  EXPECT_FALSE(can_share_prefixes(*small_model("gshard")));
  EXPECT_FALSE(can_share_prefixes(*small_model("switch")));  // refuses tokens beyond a capacity
  EXPECT_FALSE(can_share_prefixes(*small_model("lory")));
}

TEST(ScoreItems, TakeAskedExpertsAndTellHowFarTheyAre) {
  const auto model = small_model("topk");
  const auto items = some_items();
  double last = 0;
  const auto one = score_items(*model, items, {.progress = [&](double done) {
    EXPECT_GT(done, last);
    last = done;
  }});
  EXPECT_DOUBLE_EQ(last, 1);
  const auto two = score_items(*model, items, {.k = 2});
  EXPECT_NE(one[0][1].loglikelihood, two[0][1].loglikelihood);
  EXPECT_NE(error_of([&] {
              score_items(*model, std::vector<std::vector<TokenRequest>>{{{.ids = {1, 12}}}});
            }).find("another model's tokenizer"),
            std::string::npos);
}

TEST(Bundles, ReadEachTokenOnce) {
  const std::vector<TokenRequest> requests = {{.ids = {1, 2, 3, 4}, .scored_from = 3},
                                              {.ids = {1, 2, 3, 5}, .scored_from = 3},
                                              {.ids = {1, 2, 6, 7, 8}, .scored_from = 2}};
  const auto shared = make_bundles(4, requests, true, 2);
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_EQ(shared[0].item, 4u);
  EXPECT_EQ(shared[0].beginning, (std::vector<TokenId>{1, 2}));
  ASSERT_EQ(shared[0].branches.size(), 2u);  // {3} serves the first two requests
  EXPECT_EQ(shared[0].branches[0].targets.size(), 2u);
  EXPECT_EQ(shared[0].targets.size(), 1u);  // the beginning scores token 6 of the third
  EXPECT_EQ(shared[0].tokens(), 5u);
  EXPECT_EQ(make_bundles(4, requests, true, 3).size(), 2u);
  EXPECT_EQ(make_bundles(4, requests, false).size(), 2u);
}

/// The summary of a task whose requests have the scores `logs`.
TaskResult summary(const Task& task, const std::vector<std::string>& rows,
                   const std::vector<std::vector<double>>& logs) {
  const Items items = make_items(task, rows_of(rows));
  std::vector<std::vector<TokenRequest>> requests;
  std::vector<std::vector<RequestScore>> scores;
  for (const auto& item : logs) {
    requests.emplace_back(item.size(), TokenRequest{.ids = {1, 2, 3, 4}, .scored_from = 2});
    scores.emplace_back();
    for (const double log : item)
      scores.back().push_back({.loglikelihood = log, .greedy = log > -1});
  }
  return summarize(task, items, requests, scores);
}

std::string arc_row(const std::string& first, const std::string& second, int gold) {
  return Row{{"query", "q"}, {"choices", {first, second}}, {"gold", gold}}.dump();
}

TEST(Results, AreCountedByHand) {
  Task task = find_task("arc_easy", TaskProtocol::kLmEval);
  task.metrics.push_back(Metric::acc_bytes);
  // With equal sums the first choice wins. By characters (4, and 2 because é is one) item 2's first
  // wins. By bytes (4 and 4) its second wins.
  const TaskResult r = summary(task,
                               {arc_row("aaaa", "éé", 0), arc_row("aaaa", "éé", 0),
                                arc_row("aaaa", "éé", 1), arc_row("a", "b", 1)},
                               {{-2, -2}, {-3, -2}, {-3, -2}, {-1, -5}});
  EXPECT_EQ(r.n, 4u);
  EXPECT_DOUBLE_EQ(r.acc.mean, 0.5);
  EXPECT_DOUBLE_EQ(r.acc_norm->mean, 0.5);
  EXPECT_TRUE(r.items[1].right_norm);
  EXPECT_FALSE(r.items[1].right);
  EXPECT_FALSE(r.items[1].right_bytes);
  EXPECT_TRUE(r.items[2].right_bytes);
  EXPECT_DOUBLE_EQ(*r.guess, 0.5);
  EXPECT_NEAR(*r.acc.stderr_of_mean, std::sqrt(0.25 / 3), 1e-12);
  EXPECT_TRUE(r.is_guessing());
  EXPECT_EQ(to_json(r).at("acc_norm"), 0.5);
}

TEST(Results, OfContinuationsAreGreedyAndPerplexity) {
  const Task task = find_task("lambada_openai", TaskProtocol::kLmEval);
  const TaskResult r =
      summary(task, {R"({"text": "a b"})", R"({"text": "a c"})"}, {{-0.5}, {-3.5}});
  EXPECT_DOUBLE_EQ(r.acc.mean, 0.5);
  EXPECT_DOUBLE_EQ(*r.perplexity, std::exp(2.0));
  EXPECT_FALSE(r.guess.has_value());
}

TEST(Results, IntervalIsWilsons) {
  const Accuracy a = accuracy_of(8, 10);  // Wilson 1927: (0.4902, 0.9433)
  EXPECT_NEAR(a.low, 0.4902, 1e-4);
  EXPECT_NEAR(a.high, 0.9433, 1e-4);
  EXPECT_FALSE(accuracy_of(1, 1).stderr_of_mean.has_value());
}

TEST(Results, ChoicesAreComparedByTheProtocolsRule) {
  const TokenRequest request{.ids = {1, 2, 3, 4, 5}, .scored_from = 3};
  const RequestScore score{.loglikelihood = -6};
  EXPECT_DOUBLE_EQ(choice_value(Score::kContinuation, request, score), -6);
  EXPECT_DOUBLE_EQ(choice_value(Score::kWholeText, request, score), -6.0 / 5);
  EXPECT_DOUBLE_EQ(choice_value(Score::kRest, request, score), -6);
  EXPECT_DOUBLE_EQ(choice_value(Score::kRestByCount, request, score), -6.0 / 2);
}

TEST(Compare, IsMcNemarsTestOfPairedItems) {
  TaskResult a{.name = "t"}, b{.name = "t"};
  for (int i = 0; i < 20; ++i) {
    a.items.push_back({.right = i < 10});            // 0 to 9
    b.items.push_back({.right = i >= 8 && i < 17});  // 8 to 16: 8 lost, 7 won
  }
  const PairedDifference d = compare(a, b);
  EXPECT_EQ(d.only_a, 8u);
  EXPECT_EQ(d.only_b, 7u);
  EXPECT_DOUBLE_EQ(d.difference, -1.0 / 20);
  EXPECT_NEAR(d.p, 1, 1e-12);
  EXPECT_NEAR(d.high - d.low, 2 * 1.959963984540054 * std::sqrt(15 - 1.0 / 20) / 20, 1e-12);
  for (int i = 0; i < 20; ++i) b.items[static_cast<std::size_t>(i)].right = i < 4;
  EXPECT_NEAR(compare(a, b).p, 2.0 / 64, 1e-12);  // six lost, none won: 2 · 2⁻⁶
  b.items.pop_back();
  EXPECT_NE(error_of([&] { compare(a, b); }).find("on the same items"), std::string::npos);
}

}  // namespace
}  // namespace penstock::tasks
