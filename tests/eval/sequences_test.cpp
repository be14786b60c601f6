// Scores of single sequences: they do not depend on how sequences share passes, and the model's
// mode is restored.
#include "penstock/eval/sequences.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>

#include "penstock/base/error.h"
#include "penstock/eval/passes.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/as_trained.h"
#include "tests/base/temp_directory.h"
#include "tests/models/tiny_decoder.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

std::shared_ptr<LanguageModel> small_model(const std::string& method) {
  torch::manual_seed(5);
  return make_model(testing::tiny_decoder(method, /*context=*/8), 1);
}

std::shared_ptr<LanguageModel> chooses_over_passes() {
  ModelConfig config = testing::tiny_decoder("expert-choice", /*context=*/8);
  config.router = as_trained(config.router);
  EXPECT_TRUE(reads_across_texts(config));
  return make_model(config, 1);
}

const std::vector<TokenSequence> kSequences = {{.ids = {3, 1, 4, 1, 5}},
                                               {.ids = {9, 2, 6}},
                                               {.ids = {5, 3, 5, 8, 9}, .first_scored = 3},
                                               {.ids = {7, 9, 3, 2, 3}}};

TEST(ScoreSequences, IsTheLogSoftmaxOfTheLogitsAfterTheContext) {
  const auto model = small_model("dense");
  const auto scores = score_sequences(*model, kSequences);
  ASSERT_EQ(scores.size(), kSequences.size());
  torch::NoGradGuard no_grad;
  for (std::size_t s = 0; s < scores.size(); ++s) {
    const TokenSequence& sequence = kSequences[s];
    const auto first = static_cast<std::size_t>(sequence.first_scored);
    ASSERT_EQ(scores[s].size(), sequence.ids.size() - first);
    for (std::size_t i = first; i < sequence.ids.size(); ++i) {
      const std::vector<std::int64_t> before(sequence.ids.begin(),
                                             sequence.ids.begin() + static_cast<std::ptrdiff_t>(i));
      const auto output = model->forward({.tokens = torch::tensor(before).unsqueeze(0)}, {});
      const at::Tensor logits = model->logits(output.hidden[-1]).to(at::kDouble);
      EXPECT_NEAR(scores[s][i - first],
                  torch::log_softmax(logits, -1)[sequence.ids[i]].item<double>(), 1e-5);
    }
  }
}

// Without thresholds, expert choice depends on all tokens of a pass, so its sequences must not
// share passes.
TEST(ScoreSequences, DoNotDependOnTheOthers) {
  for (const char* method : {"dense", "topk", "expert-choice", "as trained"}) {
    const auto model =
        method == std::string("as trained") ? chooses_over_passes() : small_model(method);
    const auto together = score_sequences(*model, kSequences),
               apart = score_sequences(*model, kSequences, {.most_tokens = 1});
    for (std::size_t s = 0; s < kSequences.size(); ++s) {
      const auto alone = score_sequences(*model, std::span(&kSequences[s], 1));
      EXPECT_EQ(apart[s], alone[0]) << method;
      for (std::size_t i = 0; i < alone[0].size(); ++i)
        EXPECT_NEAR(together[s][i], alone[0][i], 1e-5) << method << " " << s;
    }
  }
}

TEST(ScoreSequences, TakeAskedExpertsAndTellHowFarTheyAre) {
  const auto model = small_model("topk");
  EXPECT_EQ(score_sequences(*model, kSequences, {.k = 1}), score_sequences(*model, kSequences));
  EXPECT_NE(score_sequences(*model, kSequences, {.k = 2}), score_sequences(*model, kSequences));
  LossTotals last;
  double done = 0;
  const auto scores =
      score_sequences(*model, kSequences, {.progress = [&](double share, const LossTotals& sofar) {
        EXPECT_GT(share, done);
        done = share;
        last = sofar;
      }});
  double nats = 0;
  for (const auto& sequence : scores)
    for (const double value : sequence) nats -= value;
  EXPECT_EQ(done, 1);
  EXPECT_EQ(last.tokens, 4 + 2 + 2 + 4);
  EXPECT_NEAR(last.nats, nats, 1e-9);
}

TEST(ScoreSequences, RefuseIdsOfAnotherVocabulary) {
  const std::vector<TokenSequence> other = {{.ids = {1, 12}}};
  EXPECT_THROW(score_sequences(*small_model("dense"), other), Error);
  EXPECT_TRUE(score_sequences(*small_model("dense"), {}).empty());
}

TEST(GroupsOfEqualLength, KeepToTheirLimits) {
  using Groups = std::vector<std::vector<std::size_t>>;
  const std::vector<std::size_t> lengths = {4, 2, 4, 4, 2, 9}, all = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(groups_of_equal_length(lengths, all, 10, 8), (Groups{{1, 4}, {0, 2}, {3}, {5}}));
  EXPECT_EQ(groups_of_equal_length(lengths, all, 1, 100).size(), 6u);
}

std::shared_ptr<LanguageModel> of_segments(std::int64_t length) {
  ModelConfig config = testing::tiny_decoder("lory", /*context=*/8);
  config.router.parts["lory"].set("segment_length", length);
  return make_model(config, 1);
}

/// The longest sequence has four inputs, which are no whole segments of three. The tokens that fill
/// the second segment affect no score, because the first segment's blend serves both.
TEST(ScoreSequences, FillTheLastSegment) {
  const auto model = of_segments(3);
  const auto scores = score_sequences(*model, kSequences);
  torch::NoGradGuard no_grad;
  for (const std::size_t s : {0u, 2u, 3u}) {
    const TokenSequence& sequence = kSequences[s];
    std::vector<std::int64_t> inputs(sequence.ids.begin(), sequence.ids.end() - 1);
    inputs.resize(6, 7);
    const auto output = model->forward({.tokens = torch::tensor(inputs).unsqueeze(0)}, {});
    const at::Tensor logs = torch::log_softmax(model->logits(output.hidden).to(at::kDouble), -1);
    const auto first = static_cast<std::size_t>(sequence.first_scored);
    ASSERT_EQ(scores[s].size(), sequence.ids.size() - first);
    for (std::size_t i = first; i < sequence.ids.size(); ++i)
      EXPECT_NEAR(scores[s][i - first],
                  logs[static_cast<std::int64_t>(i) - 1][sequence.ids[i]].item<double>(), 1e-5);
  }
}

/// A sequence that is shorter than a segment is routed by the mean of its own tokens. Therefore
/// its scores are those of a model of the same weights whose segments are as long as the sequence.
TEST(ScoreSequences, PaddingHasNoPartInASegmentsBlend) {
  for (const std::size_t s : {0u, 1u, 3u}) {
    const auto length = std::ssize(kSequences[s].ids) - 1;
    const auto alone = score_sequences(*of_segments(length), std::span(&kSequences[s], 1))[0];
    const auto padded = score_sequences(*of_segments(8), kSequences)[s];
    ASSERT_EQ(padded.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(padded[i], alone[i], 1e-5) << s;
  }
}

/// A measurement that throws must restore the model's training mode.
TEST(EvaluationMode, EndsWithTheMeasurementAlsoWhereThatThrows) {
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  ModelConfig config = small_model("dense")->config();
  config.vocab = 256;
  const auto model = make_model(config, 1);
  const auto stop = [&](double, const LossTotals&) {
    EXPECT_FALSE(model->is_training());
    EXPECT_FALSE(torch::GradMode::is_enabled());
    throw std::runtime_error("stopped");
  };
  for (const bool training : {true, false}) {
    model->train(training);
    EXPECT_THROW(evaluate(*model, corpus, {.sequence_length = 8, .progress = stop}),
                 std::runtime_error);
    EXPECT_EQ(model->is_training(), training);
    EXPECT_THROW(score_sequences(*model, kSequences, {.progress = stop}), std::runtime_error);
    EXPECT_EQ(model->is_training(), training);
    EXPECT_TRUE(torch::GradMode::is_enabled());
  }
}

}  // namespace
}  // namespace penstock
