// Training with a memory that streams carry: learning, bitwise continuation, and an empty
// memory at each epoch.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/routers/methods.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/error_of.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock {
namespace {

class TransformerXlTraining : public testing::SmallCorpusTest<> {
 protected:
  void SetUp() override { ops::set_threads(2); }
  /// Dropout is on, so that its draws are tested too.
  Recipe recipe(const std::string& method, std::int64_t batch, std::int64_t length) const {
    ConfigNode node = testing::small_recipe_node(method, batch, length, "unused");
    node.set("model.architecture", "transformer-xl");
    node.set("model.transformer_xl.dropout", 0.1);
    return read_recipe(node);
  }
  void expect_continues_bitwise(Recipe small) const;
};

TEST_F(TransformerXlTraining, RecipesGetStreamsAndTheirMemory) {
  const Recipe xl = recipe("topk", 8, 32);
  EXPECT_EQ(xl.data.sampling, Sampling::kStreams);
  EXPECT_EQ(xl.train.evaluation.streams, 10);
  EXPECT_EQ(xl.model.xl.memory, 32);
  const Recipe decoder = testing::small_recipe("topk", 8, 32);
  EXPECT_EQ(decoder.data.sampling, Sampling::kShuffled);
  EXPECT_EQ(decoder.train.evaluation.streams, 0);
}

TEST_F(TransformerXlTraining, EveryMethodLearns) {
  ops::set_threads(1);  // two threads wait for each other here, because other tests want the cores
  for (const std::string& method : method_registry().names()) {
    Recipe small = recipe(method, 8, 32);
    if (method == "lory") small.model.router.parts["lory"].set("segment_length", 16);
    Trainer trainer(small, *corpus_);
    const double first = trainer.advance().report.loss;
    double last = 0;
    while (trainer.step() < 40) last = trainer.advance().report.loss;
    EXPECT_NEAR(first, std::log(256.0), 0.3) << method;
    EXPECT_LT(last, first - 2) << method;
    const Evaluation evaluation = trainer.evaluate(Split::kValidation, 0);
    const std::int64_t targets = corpus_->count(Split::kValidation).tokens - 1;
    EXPECT_EQ(evaluation.total.tokens, targets / 10 * 10) << method;
    EXPECT_LT(evaluation.total.loss(), last + 0.5) << method;
  }
}

/// @param small  a recipe of 16 × 64 tokens
void TransformerXlTraining::expect_continues_bitwise(Recipe small) const {
  small.train.micro_batch = 8;
  Trainer straight(small, *corpus_), before(small, *corpus_), after(small, *corpus_),
      forgetful(small, *corpus_);
  for (int i = 0; i < 5; ++i) straight.advance();
  for (int i = 0; i < 3; ++i) before.advance();
  testing::TrainerState middle = testing::state_of(before);
  EXPECT_EQ(middle.optimizer.at("memory.1.0").sizes(), (std::vector<std::int64_t>{8, 64, 32}));
  testing::restore(after, middle);
  std::erase_if(middle.optimizer,
                [](const auto& item) { return item.first.starts_with("memory."); });
  testing::restore(forgetful, middle);
  for (int i = 0; i < 2; ++i) {
    after.advance();
    forgetful.advance();
  }
  const testing::TrainerState end = testing::state_of(straight);
  testing::expect_equal(testing::state_of(after), end);
  const std::string name = "model.layers.0.self_attn.v_proj.weight";
  EXPECT_FALSE(torch::equal(forgetful.model_tensors().at(name), end.model.at(name)));
}

TEST_F(TransformerXlTraining, ContinuesBitwiseWithTheMemoryAndOnlyWithIt) {
  expect_continues_bitwise(recipe("topk", 16, 64));
}

TEST_F(TransformerXlTraining, ContinuesBitwiseInBf16) {
  Recipe small = recipe("hyperrouter", 16, 64);
  small.train.precision = ops::ProductPrecision::bf16;
  small.run.emulate_bf16 = true;
  expect_continues_bitwise(small);
  ops::emulate_bf16(false);
}

TEST_F(TransformerXlTraining, BeginsAnewWithEachEpochAndRemembersMoreMeanwhile) {
  // Three windows a stream. A step's FLOPs show how much memory the step reads.
  Recipe small = recipe("dense", 8, 32);
  const std::int64_t tokens = corpus_->count(Split::kTrain).tokens;
  small.train.batch_sequences = small.train.micro_batch = (tokens - 1) / (3 * 32 + 31);
  small.model.xl.memory = 48;
  Trainer trainer(small, *corpus_);
  std::vector<double> flops;
  for (int i = 0; i < 4; ++i) flops.push_back(trainer.advance().report.flops);
  EXPECT_LT(flops[0], flops[1]);  // 0, 32, then 48 positions of memory
  EXPECT_LT(flops[1], flops[2]);
  EXPECT_EQ(flops[3], flops[0]);
  EXPECT_EQ(trainer.optimizer_tensors().at("memory.0.0").size(1), 32);
}

TEST_F(TransformerXlTraining, AFailedStepLeavesTheMemoryAlone) {
  Trainer trainer(recipe("topk", 4, 16), *corpus_);
  trainer.advance();
  const at::Tensor memory = trainer.optimizer_tensors().at("memory.0.1").clone();
  {
    torch::NoGradGuard no_grad;
    trainer.model_tensors().at("model.layers.1.self_attn.o_proj.weight").fill_(NAN);
  }
  const StepOutcome outcome = trainer.advance();
  testing::expect_says(outcome.failure, {"layer 1"});
  EXPECT_TRUE(torch::equal(trainer.optimizer_tensors().at("memory.0.1"), memory));
}

}  // namespace
}  // namespace penstock
