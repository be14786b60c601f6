// A classifier's score: hand-worked means, and sums that equal those of one pass for each text.
#include "penstock/finetune/score.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/finetune/small_task.h"

namespace penstock {
namespace {

TEST(ClassificationScore, AccuracyAndMacroF1ByHand) {
  // Three classes. Class 2 neither occurs nor is predicted, so it does not count.
  const ClassificationScore score{.confusion = {{3, 1, 0}, {2, 2, 0}, {0, 0, 0}}, .texts = 8};
  EXPECT_DOUBLE_EQ(score.accuracy(), 5.0 / 8);
  EXPECT_DOUBLE_EQ(score.macro_f1(), (6.0 / 9 + 4.0 / 7) / 2);
  EXPECT_EQ(ClassificationScore{}.accuracy(), 0);
}

/// Five texts of 4 and 6 tokens, scored by a Transformer-XL with three classes.
class ScoredTexts : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    classifier_ = std::make_shared<Classifier>(
        make_model(testing::small_body(ModelKind::transformer_xl, "topk"), 1),
        std::make_shared<ClassifierHead>(32, 3, 0.1, 1, 5));
    classifier_->to(torch::kDouble);
    for (std::int64_t text = 0; text < 5; ++text) {
      auto& ids = texts_.texts.emplace_back(text % 2 == 0 ? 4 : 6);
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = (37 * text + 11 * static_cast<std::int64_t>(i)) % 256;
      texts_.labels.push_back(text % 3);
    }
  }
  /// Adds the score of the text at `index`, read after `memory`. Returns the memory after it.
  ModelMemory add(std::size_t index, const ModelMemory& memory, std::int64_t memory_length,
                  ClassificationScore& to) {
    const torch::NoGradGuard no_grad;
    classifier_->eval();
    ClassifierOutput found =
        classifier_->forward({.tokens = torch::tensor(texts_.texts[index]).unsqueeze(0),
                              .memory = memory,
                              .memory_length = memory_length},
                             {});
    const at::Tensor p = found.logits[0].softmax(0);
    const std::int64_t label = texts_.labels[index];
    to.nats -= std::log(p[label].item<double>());
    ++to.confusion[static_cast<std::size_t>(label)]
                  [static_cast<std::size_t>(p.argmax().item<std::int64_t>())];
    ++to.texts;
    return std::move(found.memory);
  }
  static ClassificationScore none() {
    return {.confusion = std::vector(3, std::vector<std::int64_t>(3))};
  }
  void expect_equal(const ClassificationScore& found, const ClassificationScore& wanted) {
    EXPECT_EQ(found.confusion, wanted.confusion);
    EXPECT_NEAR(found.nats, wanted.nats, 1e-10);
    EXPECT_EQ(found.texts, wanted.texts);
  }

  std::shared_ptr<Classifier> classifier_;
  EncodedSet texts_;
};

TEST_F(ScoredTexts, CountEachTextOnce) {
  ClassificationScore wanted = none();
  for (std::size_t i = 0; i < 5; ++i) add(i, {}, 0, wanted);
  expect_equal(score(*classifier_, texts_, {}), wanted);
}

TEST_F(ScoredTexts, OfCarriedRowsReadTheTextsOfTheirRowBeforeThem) {
  // Two rows: texts 0 and 2, and texts 1 and 3. The fifth text fills no batch.
  ClassificationScore wanted = none(), apart = none();
  for (const std::size_t row : {0u, 1u}) {
    add(row + 2, add(row, {}, 8, wanted), 8, wanted);
    add(row, {}, 0, apart);
    add(row + 2, {}, 0, apart);
  }
  EXPECT_GT(std::abs(wanted.nats - apart.nats), 1e-6);
  expect_equal(score(*classifier_, texts_, {.carried_rows = 2, .memory_length = 8}), wanted);
}

}  // namespace
}  // namespace penstock
