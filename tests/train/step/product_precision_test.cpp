// train.precision = "bf16": which products of a step are rounded, that a run continues bit for bit
// with the processor's instruction or without it, and that the precision belongs to the run.
#include "penstock/train/step/product_precision.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/product_unit.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/trainer.h"
#include "tests/base/error_of.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock {
namespace {

using testing::small_recipe;

class ProductPrecisionTest : public testing::SmallCorpusTest<> {
 protected:
  void SetUp() override { ops::set_threads(2); }
  void TearDown() override { ops::emulate_bf16(false); }

  /// A recipe in bf16, emulated where the processor has no bf16 instruction.
  Recipe bf16_recipe(const std::string& method) const {
    Recipe out = small_recipe(method, 8, 32);
    out.train.precision = ops::ProductPrecision::bf16;
    out.run.emulate_bf16 = !ops::processor_has_bf16();
    return out;
  }
};

TEST_F(ProductPrecisionTest, RoundsTheProductsOfTrainingAndNoOthers) {
  Trainer trainer(bf16_recipe("topk"), *corpus_);
  ops::reset_dispatch_counts();
  trainer.advance();
  auto counts = ops::dispatch_counts();
  EXPECT_EQ(counts["linear/bf16"], 4);  // two layers' projections, before and after attention
  EXPECT_EQ(counts["linear.backward/bf16"], 4);
  EXPECT_EQ(counts["expert_ffn/bf16"], 2);
  EXPECT_EQ(counts["expert_ffn.backward/bf16"], 2);
  EXPECT_EQ(counts["causal_attention/bf16"], 2);
  EXPECT_EQ(counts["causal_attention.backward/bf16"], 2);
  EXPECT_EQ(counts["linear_cross_entropy/bf16"], 1);
  std::int64_t others = 0;  // other calls of the linear operator
  for (const auto& [name, count] : counts)
    if (name.starts_with("linear/") && name != "linear/bf16") others += count;
  EXPECT_EQ(others, 2);  // the layers' routers
  ops::reset_dispatch_counts();
  trainer.evaluate(Split::kValidation, 512);
  for (const auto& [name, count] : ops::dispatch_counts())
    EXPECT_EQ(name.find("bf16"), std::string::npos) << name;
}

TEST_F(ProductPrecisionTest, LearnsAsFp32Does) {
  for (const char* method : {"dense", "topk", "remoe", "lory", "hyperrouter"}) {
    Recipe recipe = bf16_recipe(method), plain = small_recipe(method, 8, 32);
    if (std::string(method) == "lory")
      for (Recipe* each : {&recipe, &plain})
        each->model.router.parts["lory"].set("segment_length", 16);
    Trainer rounded(recipe, *corpus_), exact(plain, *corpus_);
    const double first = rounded.advance().report.loss, wanted = exact.advance().report.loss;
    EXPECT_NE(first, wanted) << method;
    EXPECT_NEAR(first, wanted, 1e-3) << method;
    double last = 0, wanted_last = 0;
    while (rounded.step() < 40) last = rounded.advance().report.loss;
    while (exact.step() < 40) wanted_last = exact.advance().report.loss;
    EXPECT_LT(last, first - 2) << method;
    EXPECT_NEAR(last, wanted_last, 0.1) << method;
  }
}

/// Trains with `unit` if the processor has it, and continues with the unit's emulation.
void expect_goes_on(Recipe recipe, const Corpus& corpus, ops::ProductUnit unit,
                    ops::ProductUnit emulation) {
  const auto choose = [&] { ops::choose_product_unit(ops::available(unit) ? unit : emulation); };
  recipe.train.micro_batch = 4;
  Trainer straight(recipe, corpus);
  choose();
  for (int i = 0; i < 4; ++i) straight.advance();
  const auto wanted = straight.model_tensors();
  Trainer before(recipe, corpus);
  choose();
  for (int i = 0; i < 2; ++i) before.advance();
  const testing::TrainerState middle = testing::state_of(before);
  Trainer after(recipe, corpus);
  ops::choose_product_unit(emulation);
  testing::restore(after, middle);
  for (int i = 0; i < 2; ++i) after.advance();
  for (const auto& [name, tensor] : after.model_tensors()) {
    EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(torch::equal(tensor, wanted.at(name))) << name;
  }
}

TEST_F(ProductPrecisionTest, GoesOnBitwiseAndEmulatedToTheSameBits) {
  for (const char* method : {"topk", "remoe"}) {
    SCOPED_TRACE(method);
    expect_goes_on(bf16_recipe(method), *corpus_, ops::ProductUnit::avx512,
                   ops::ProductUnit::emulated_avx512);
    expect_goes_on(bf16_recipe(method), *corpus_, ops::ProductUnit::amx,
                   ops::ProductUnit::emulated_amx);
  }
}

TEST_F(ProductPrecisionTest, ToEmulateIsToAddUpAsAvx512Does) {
  Recipe recipe = bf16_recipe("topk");
  recipe.run.emulate_bf16 = true;
  const Trainer trainer(recipe, *corpus_);
  EXPECT_EQ(ops::product_unit(), ops::ProductUnit::emulated_avx512);
}

TEST_F(ProductPrecisionTest, GoesOnInAnotherOrderOfSumsWithANote) {
  nlohmann::json trainer;
  ops::choose_product_unit(ops::ProductUnit::emulated_amx);
  record_product_unit(ops::ProductPrecision::fp32, trainer);
  EXPECT_TRUE(trainer.empty());
  record_product_unit(ops::ProductPrecision::bf16, trainer);
  EXPECT_EQ(trainer.at("product_unit"), "amx-bf16");
  EXPECT_EQ(product_unit_note(trainer), "");
  EXPECT_EQ(product_unit_note(nlohmann::json::object()), "");
  ops::choose_product_unit(ops::ProductUnit::emulated_avx512);
  testing::expect_says(product_unit_note(trainer),
                       {"in the order of amx-bf16 so far, and are in that of avx512-bf16"});
}

TEST_F(ProductPrecisionTest, BelongsToTheRun) {
  const Recipe plain = small_recipe("topk", 8, 32);
  Recipe rounded = plain, emulated = plain;
  rounded.train.precision = emulated.train.precision = ops::ProductPrecision::bf16;
  emulated.run.emulate_bf16 = true;
  EXPECT_EQ(difference(plain, rounded), "train.precision: \"fp32\" -> \"bf16\"");
  EXPECT_EQ(difference(rounded, emulated), "");
}

TEST_F(ProductPrecisionTest, IsRefusedWhereTheProcessorHasNone) {
  if (ops::processor_has_bf16()) GTEST_SKIP() << "this processor has bf16 products";
  Recipe recipe = bf16_recipe("dense");
  recipe.run.emulate_bf16 = false;
  testing::expect_error([&] { Trainer trainer(recipe, *corpus_); }, {"run.emulate_bf16 = true"});
}

}  // namespace
}  // namespace penstock
