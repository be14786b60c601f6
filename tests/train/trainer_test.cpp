// The training state: learning, gradient accumulation, bitwise continuation at a size where stock
// operators do not repeat their bits, and numbers that stop being finite.
#include "penstock/train/trainer.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/ops/dispatch.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step/language_work.h"
#include "tests/base/error_of.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock {
namespace {

using testing::small_recipe;

class TrainerTest : public testing::SmallCorpusTest<> {
 protected:
  void SetUp() override { ops::set_threads(2); }
};

TEST_F(TrainerTest, EveryMethodLearns) {
  for (const char* method : {"dense", "topk", "remoe", "hash", "expert-choice", "lory"}) {
    Recipe recipe = small_recipe(method, 8, 32);
    if (std::string(method) == "lory") recipe.model.router.parts["lory"].set("segment_length", 16);
    Trainer trainer(recipe, *corpus_);
    const double first = trainer.advance().report.loss;
    double last = 0;
    while (trainer.step() < 40) last = trainer.advance().report.loss;
    EXPECT_NEAR(first, std::log(256.0), 0.2) << method;
    EXPECT_LT(last, first - 2) << method;
    // A whole split. Its last window is shorter than the others.
    const Evaluation evaluation = trainer.evaluate(Split::kValidation, 0);
    EXPECT_EQ(evaluation.total.tokens, corpus_->count(Split::kValidation).tokens - 1) << method;
    EXPECT_NEAR(evaluation.total.loss(), last, 0.7) << method;
  }
}

TEST_F(TrainerTest, ReluRoutingStartsNearHalfAndMovesLambdaOnceAStep) {
  Recipe recipe = small_recipe("remoe", 8, 32);
  recipe.train.micro_batch = 2;  // four micro-batches, but one move of λ
  Trainer trainer(recipe, *corpus_);
  const StepOutcome outcome = trainer.advance();
  EXPECT_NEAR(outcome.report.sparsity, 0.5, 0.1);
  EXPECT_NEAR(outcome.report.active_experts, 4 * (1 - outcome.report.sparsity), 1e-9);
  EXPECT_NEAR(trainer.model().balancers()[0]->state().at("lambda"), 1.2e-8, 1e-12);
}

/// The factor is larger than the paper's because the run is short. Half of the gates are on at
/// first. The target is a quarter.
TEST_F(TrainerTest, ReluRoutingReachesItsTargetSparsity) {
  Recipe recipe = small_recipe("remoe", 8, 32);
  recipe.model.router.parts["adaptive-l1"].set("factor", 1.5);
  recipe.train.steps = 160;
  Trainer trainer(recipe, *corpus_);
  double late = 0;
  while (trainer.step() < 160) {
    const double sparsity = trainer.advance().report.sparsity;
    if (trainer.step() > 120) late += sparsity / 40;
  }
  EXPECT_NEAR(late, 0.75, 0.05);
}

TEST_F(TrainerTest, AccumulatedGradientsAreTheMeanOverMicroBatches) {
  Recipe whole = small_recipe("dense", 8, 16), parts = whole;
  parts.train.micro_batch = 2;
  Trainer a(whole, *corpus_), b(parts, *corpus_);
  const StepOutcome first = a.advance(), second = b.advance();
  EXPECT_NEAR(first.report.loss, second.report.loss, 1e-6);
  EXPECT_NEAR(first.gradient_norm, second.gradient_norm, 1e-5 * first.gradient_norm);
  EXPECT_NEAR(first.report.flops, second.report.flops, 1);
}

TEST_F(TrainerTest, SparsityCountsEveryMicroBatchAndNoEvaluation) {
  Recipe recipe = small_recipe("remoe", 8, 32);
  recipe.train.micro_batch = 2;
  Trainer trainer(recipe, *corpus_);
  trainer.advance();
  trainer.evaluate(Split::kValidation, 0);
  const std::vector<Batch> parts = [&] {
    const TrainingBatches batches(*corpus_, {.sequence_length = 32, .batch_sequences = 8});
    std::vector<Batch> out;
    for (std::int64_t first : {0, 2, 4, 6}) out.push_back(batches.batch(0).slice(first, 2));
    return out;
  }();
  RoutingContext context = trainer.context();
  context.training = true;
  const auto report_of = [&](const std::vector<Batch>& batches) {
    std::vector<ModelMemory> memory;
    LanguageWork work(trainer.model(), batches, corpus_->token_bytes());
    return accumulate(work, context, 1, memory);
  };
  double sum = 0, last = 0;
  for (const Batch& part : parts) sum += last = report_of({part}).sparsity;
  EXPECT_NEAR(report_of(parts).sparsity, sum / 4, 1e-12);
  EXPECT_NE(sum / 4, last);
}

TEST_F(TrainerTest, LeavesTheCallersRandomNumbersAlone) {
  const Recipe recipe = small_recipe("topk", 2, 8);
  torch::manual_seed(7);
  const at::Tensor wanted = torch::rand({3});
  torch::manual_seed(7);
  Trainer trainer(recipe, *corpus_);
  EXPECT_TRUE(torch::equal(torch::rand({3}), wanted));
}

TEST_F(TrainerTest, ContinuesBitwiseAt4096Rows) {
  ASSERT_EQ(at::get_num_threads(), 2);
  for (const char* method : {"topk", "remoe"}) {
    const Recipe recipe = small_recipe(method, 32, 128);  // 4096 tokens a step
    Trainer straight(recipe, *corpus_), before(recipe, *corpus_), after(recipe, *corpus_);
    for (int i = 0; i < 6; ++i) straight.advance();
    for (int i = 0; i < 3; ++i) before.advance();
    testing::restore(after, testing::state_of(before));
    for (int i = 0; i < 3; ++i) after.advance();
    SCOPED_TRACE(method);
    testing::expect_equal(after.model_tensors(), straight.model_tensors());
  }
}

/// Thrown by a watch.
struct GivenUp : std::exception {};

TEST_F(TrainerTest, AStepGivenUpAnywhereLeavesTheStateAndGoesOnBitwise) {
  for (const char* architecture : {"decoder", "transformer-xl"})
    for (const char* method : {"remoe", "thor"}) {
      ConfigNode node = testing::small_recipe_node(method, 4, 16, "unused");
      node.set("model.architecture", std::string(architecture));
      node.set("train.micro_batch", 2);
      const Recipe recipe = read_recipe(node);
      Trainer straight(recipe, *corpus_), stopped(recipe, *corpus_);
      std::vector<StepPlace> places;
      for (int i = 0; i < 3; ++i)
        straight.advance([&](const StepPlace& place) {
          if (i == 0) places.push_back(place);
        });
      // The places of each micro-batch: layers and head, forward once or twice, then backward.
      const std::size_t passes = std::string(method) == "thor" ? 2 : 1;
      ASSERT_EQ(places.size(), 2 * (3 * passes + 2 * passes + 1)) << architecture << method;
      EXPECT_EQ(places.back().layer, 0);
      EXPECT_EQ(places.back().direction, PassDirection::backward);
      EXPECT_EQ(places.back().part, 1u);
      stopped.advance();
      for (std::size_t stop = 0; stop < places.size(); ++stop) {
        std::size_t calls = 0;
        EXPECT_THROW(stopped.advance([&](const StepPlace&) {
          if (calls++ == stop) throw GivenUp();
        }),
                     GivenUp)
            << stop;
        EXPECT_EQ(stopped.step(), 1);
      }
      while (stopped.step() < 3) stopped.advance();
      const auto wanted = straight.optimizer_tensors(), weights = straight.model_tensors();
      for (const auto& [name, tensor] : stopped.model_tensors())
        EXPECT_TRUE(torch::equal(tensor, weights.at(name))) << method << " " << name;
      for (const auto& [name, tensor] : stopped.optimizer_tensors())
        EXPECT_TRUE(torch::equal(tensor, wanted.at(name))) << method << " " << name;
    }
}

TEST_F(TrainerTest, NamesTheLayerThatStoppedBeingFiniteAndKeepsTheState) {
  Trainer trainer(small_recipe("topk", 4, 16), *corpus_);
  trainer.advance();
  {
    torch::NoGradGuard no_grad;
    trainer.model_tensors().at("model.layers.1.self_attn.o_proj.weight").fill_(NAN);
  }
  const StepOutcome outcome = trainer.advance();
  testing::expect_says(outcome.failure, {"layer 1"});
  EXPECT_EQ(trainer.step(), 1);
  EXPECT_TRUE(trainer.model_tensors().at("model.norm.weight").isfinite().all().item<bool>());
}

TEST_F(TrainerTest, NamesTheHeadWhenNoLayerIsToBlame) {
  Trainer trainer(small_recipe("dense", 4, 16), *corpus_);
  {
    torch::NoGradGuard no_grad;
    trainer.model_tensors().at("lm_head.weight")[3].fill_(NAN);
  }
  const StepOutcome outcome = trainer.advance();
  testing::expect_says(outcome.failure, {"output head"});
}

TEST_F(TrainerTest, NamesEveryAuxiliaryLoss) {
  Recipe recipe = small_recipe("vanilla", 4, 16);
  recipe.train.micro_batch = 2;
  Trainer trainer(recipe, *corpus_);
  const StepOutcome outcome = trainer.advance();
  const StepReport& report = outcome.report;
  ASSERT_EQ(report.auxiliary_losses.size(), 2U);
  // 0.02 at perfect balance and 0.001·(ln 4)² in each of two layers. The routers hardly prefer any
  // expert yet.
  EXPECT_NEAR(report.auxiliary_losses.at("load-balance"), 2 * 0.02, 0.004);
  EXPECT_NEAR(report.auxiliary_losses.at("z-loss"), 2 * 0.001 * std::pow(std::log(4.0), 2), 4e-4);
  EXPECT_NEAR(report.total_loss,
              report.loss + report.auxiliary_losses.at("load-balance") +
                  report.auxiliary_losses.at("z-loss"),
              1e-5);
  const auto line = metrics_line(1, outcome, {.peak_flops = 1});
  EXPECT_EQ(line.at("auxiliary_losses").at("z-loss"), report.auxiliary_losses.at("z-loss"));
  EXPECT_EQ(line.at("grad_norm"), outcome.gradient_norm);
  EXPECT_EQ(line.at("learning_rate"), outcome.learning_rate);
  const WatchedStep watched = watched_step(line);
  EXPECT_EQ(watched.loss, report.loss);
  EXPECT_EQ(watched.auxiliary_losses, report.auxiliary_losses);
  EXPECT_EQ(watched.gradient_norm, outcome.gradient_norm);
}

TEST_F(TrainerTest, SparsityAtTheTargetIsExactForAnyNumberOfLayers) {
  // Top-1 assigns T of T·E pairs in each of 12 layers, so the sparsity is exactly 1 − 1/E.
  Recipe recipe = small_recipe("topk", 2, 8);
  recipe.model.layers = 12;
  Trainer trainer(recipe, *corpus_);
  EXPECT_EQ(trainer.advance().report.sparsity, 1 - 1.0 / 4);
}

TEST_F(TrainerTest, ADeviceHasOneNameAndIsThere) {
  Recipe recipe = small_recipe("topk", 8, 32);
  for (const char* wrong : {"cpu:0", "cuda:99", "meta", "processor", "cuda:x", ""}) {
    recipe.run.device = wrong;
    testing::expect_says(testing::error_of([&] { Trainer trainer(recipe, *corpus_); }),
                         {"run.device = '" + recipe.run.device + "'", "use cpu"});
  }
}

}  // namespace
}  // namespace penstock
