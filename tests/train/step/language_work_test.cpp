// What a step of a language model counts, compared with hand-worked numbers.
#include "penstock/train/step/language_work.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <numeric>

#include "penstock/models/make_model.h"
#include "penstock/train/step/accumulate.h"
#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

/// Two dense layers, d = 16, f = 24, V = 10.
std::shared_ptr<LanguageModel> dense_model(ModelKind architecture) {
  ModelConfig config = testing::tiny_decoder("dense", /*context=*/3, /*vocab=*/10);
  config.architecture = architecture;
  config.xl.memory = 2;
  auto model = make_model(config, 1);
  model->train();
  return model;
}

class CountedStep : public ::testing::Test {
 protected:
  /// A step over one row of three tokens. A token has as many bytes as its number says.
  StepReport step(LanguageModel& model, Batch batch) {
    batch.sequences = 1;
    batch.length = 3;
    batch.inputs = {7, 1, 2};
    batch.targets = {1, 2, 9};
    batch.domains = {0, 0, 0};
    std::vector<std::int32_t> bytes(10);
    std::iota(bytes.begin(), bytes.end(), 0);
    LanguageWork work(model, {std::move(batch)}, bytes);
    return accumulate(work, {.total_steps = 10, .training = true}, 9, memory_);
  }
  std::vector<ModelMemory> memory_;
};

TEST_F(CountedStep, APairIsWhatATokenMayRead) {
  const auto model = dense_model(ModelKind::decoder);
  const StepReport whole = step(*model, {});
  EXPECT_EQ(whole.tokens, 3);
  EXPECT_EQ(whole.bytes, 1 + 2 + 9);
  EXPECT_EQ(whole.attended_pairs, 6);
  // A token takes 2 (4 d² + 3 d f) + d V = 4512 multiply-adds and a pair 2 · 2 d = 64; a step costs
  // six FLOPs for each of them.
  EXPECT_DOUBLE_EQ(whole.flops, 6 * (3 * 4512 + 6 * 64));
  // The third token begins another document and reads itself alone.
  const StepReport divided = step(*model, {.starts = {0, 0, 2}});
  EXPECT_EQ(divided.attended_pairs, 1 + 2 + 1);
  EXPECT_DOUBLE_EQ(divided.flops, 6 * (3 * 4512 + 4 * 64));
}

TEST_F(CountedStep, TheMemoryIsReadByARowThatContinues) {
  const auto model = dense_model(ModelKind::transformer_xl);
  // A token takes 2 (4 d² + 2 d f) + d V = 3744 multiply-adds, a pair 2 · 3 d = 96, a remembered
  // position 2 · 2 d² = 1024, a distance 2 d² = 512. The last two have no gradient and cost four
  // FLOPs.
  const double first = 6 * (3 * 3744 + 6 * 96) + 4 * (3 * 512);
  EXPECT_DOUBLE_EQ(step(*model, {.fresh = true}).flops, first);
  const StepReport second = step(*model, {.fresh = false});
  EXPECT_EQ(second.attended_pairs, 6 + 3 * 2);
  EXPECT_EQ(second.remembered.positions, 2);
  EXPECT_EQ(second.remembered.distances, 5);
  EXPECT_DOUBLE_EQ(second.flops, 6 * (3 * 3744 + 12 * 96) + 4 * (2 * 1024 + 5 * 512));
  EXPECT_DOUBLE_EQ(step(*model, {.fresh = true}).flops, first);  // the memory is not read
}

}  // namespace
}  // namespace penstock
