// Evaluation with carried memory: the batch size changes nothing, and segments equal one long pass.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/eval/perplexity.h"
#include "penstock/models/make_model.h"
#include "tests/models/tiny_decoder.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

class EvaluationWithMemory : public testing::SmallCorpusTest<> {
 protected:
  void SetUp() override {
    ModelConfig config = testing::tiny_decoder("topk", 16, 256);
    config.architecture = ModelKind::transformer_xl;
    config.xl.memory = 24;
    config.router.k = 2;
    torch::manual_seed(7);
    model_ = make_model(config, 1);
    model_->to(torch::kDouble);
  }
  LossTotals measure(EvaluateOptions options) {
    options.max_tokens = 600;
    return evaluate(*model_, *corpus_, options).total;
  }
  std::shared_ptr<LanguageModel> model_;
};

TEST_F(EvaluationWithMemory, DoesNotDependOnTheBatch) {
  const auto at_once = [&](std::int64_t batch) {
    return measure({.sequence_length = 16, .batch_sequences = batch, .streams = 6});
  };
  const LossTotals one = at_once(1);
  EXPECT_EQ(one.tokens, 600);
  for (const std::int64_t batch : {4, 6, 100}) {
    EXPECT_EQ(at_once(batch).tokens, one.tokens);
    EXPECT_NEAR(at_once(batch).loss(), one.loss(), 1e-12) << batch;
    EXPECT_NEAR(at_once(batch).bits_per_byte(), one.bits_per_byte(), 1e-12) << batch;
  }
}

TEST_F(EvaluationWithMemory, SegmentsOfAnyLengthAreOneLongPassWhereTheMemoryHoldsAll) {
  const auto in_segments = [&](std::int64_t length, std::int64_t memory) {
    return measure({.sequence_length = length,
                    .batch_sequences = 3,
                    .streams = 3,
                    .memory_length = memory})
        .loss();
  };
  const double whole = in_segments(200, 0);
  EXPECT_NEAR(in_segments(16, 1000), whole, 1e-12);
  EXPECT_NEAR(in_segments(70, 1000), whole, 1e-12);
  // A memory of 0 and the model's own memory of 24 give other contexts.
  EXPECT_GT(std::abs(in_segments(16, 0) - whole), 1e-6);
  EXPECT_GT(std::abs(in_segments(16, -1) - in_segments(16, 0)), 1e-6);
  EXPECT_EQ(in_segments(16, -1), in_segments(16, 24));
}

}  // namespace
}  // namespace penstock
