// Settings that nothing reads are reported with their place. A recipe whose settings are all read
// gives no note.
#include "penstock/train/unread_settings.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "penstock/io/toml.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_identity.h"
#include "tests/base/error_of.h"
#include "tests/train/recipe_text.h"

namespace penstock {
namespace {

using Notes = std::vector<std::string>;

Notes notes_of(const std::vector<std::string>& overrides) {
  return testing::recipe_from(overrides).notes;
}

void expect_note(const std::vector<std::string>& overrides, const std::string& opening,
                 const std::string& reason) {
  const Notes notes = notes_of(overrides);
  ASSERT_EQ(notes.size(), 1U) << overrides[0];
  EXPECT_EQ(notes[0].substr(0, opening.size()), opening) << notes[0];
  testing::expect_says(notes[0], {reason});
}

TEST(UnreadSettings, AreNoneWhereEverySettingCounts) {
  EXPECT_EQ(notes_of({}), Notes());
  EXPECT_EQ(notes_of({"model.router.k=2", "model.moe.granularity=2", "train.warmup_steps=5",
                      "train.min_lr=1e-6", "train.eval_every=5", "train.eval_tokens=64"}),
            Notes());
  EXPECT_EQ(notes_of({"model.architecture=transformer-xl", "model.transformer_xl.dropout=0.1",
                      "model.moe.first_layers=1", "model.transformer_xl.ffn_block_dropout=0.5",
                      "train.eval_memory=8"}),
            Notes());
}

TEST(UnreadSettings, OfExpertsInADenseModelAreSaid) {
  expect_note({"model.router.method=dense"}, "r.toml:6: model.moe.experts = 4: nothing reads this",
              "model.router.method = \"dense\" has no experts");
  expect_note({"model.router.method=dense", "model.moe.experts=0", "model.router.k=2"},
              "--set model.router.k=2: model.router.k = 2", "has no experts");
}

TEST(UnreadSettings, OfOuterStepsAreSaidWhereThereAreNone) {
  expect_note({"parallel.outer_lr=0.5", "parallel.outer_momentum=0"},
              "--set parallel.outer_lr=0.5: parallel.outer_lr = 0.5, parallel.outer_momentum = 0",
              "parallel.local_steps = 1 makes no outer steps; set that to 2 or more for them");
  expect_note({"parallel.whole_experts=true"},
              "--set parallel.whole_experts=true: parallel.whole_experts = true",
              "parallel.tensor = 1 divides none");
  EXPECT_EQ(notes_of({"parallel.whole_experts=true", "parallel.tensor=2"}), Notes());
  expect_note({"parallel.overlap=false", "parallel.local_steps=10"},
              "--set parallel.overlap=false: parallel.overlap = false",
              "parallel.local_steps = 10 exchanges no gradients");
  EXPECT_EQ(notes_of({"parallel.local_steps=10", "parallel.outer_lr=0.5"}), Notes());
}

TEST(UnreadSettings, OfProductsInBf16AreSaidWhereTheyAreInFp32) {
  expect_note({"run.emulate_bf16=true"}, "--set run.emulate_bf16=true: run.emulate_bf16 = true: ",
              "train.precision = \"fp32\" has no products in bf16");
  EXPECT_EQ(notes_of({"run.emulate_bf16=true", "train.precision=bf16"}), Notes());
}

TEST(UnreadSettings, OfTheOtherArchitectureAreSaid) {
  expect_note({"model.transformer_xl.memory=64"},
              "--set model.transformer_xl.memory=64: ", "those are for \"transformer-xl\"");
  expect_note({"model.architecture=transformer-xl", "model.rope_base=500"},
              "--set model.rope_base=500: ", "relative positions");
  expect_note({"model.architecture=transformer-xl", "model.transformer_xl.ffn_block_dropout=0.5"},
              "--set model.transformer_xl.ffn_block_dropout=0.5: ", "every layer has experts");
}

TEST(UnreadSettings, OfScheduleAndEvaluationAreSaid) {
  // The rate at the last of ten steps is (9 + 1) / (100 + 1) of train.lr.
  expect_note({"train.steps=10", "train.warmup_steps=100", "train.lr=1.01"},
              "--set train.warmup_steps=100: train.warmup_steps = 100 is not below",
              "rises to 0.1 and never reaches train.lr = 1.01");
  expect_note({"train.lr_schedule=constant", "train.min_lr=1e-6"},
              "--set train.min_lr=1e-6: ", "does not end at it");
  expect_note({"train.eval_tokens=64"}, "--set train.eval_tokens=64: ", "train.eval_every = 0");
  expect_note({"train.eval_memory=64"}, "--set train.eval_memory=64: ", "transformer-xl alone");
}

TEST(UnreadSettings, OfTheRoutersPartsAreSaid) {
  expect_note({"model.router.topk.schedule.start=2"},
              "--set model.router.topk.schedule.start=2: model.router.topk.schedule.start = 2",
              "kind = \"constant\"");
  expect_note({"model.router.topk.schedule.kind=linear", "model.router.topk.schedule.over=900",
               "model.router.k=2", "train.steps=10"},
              "--set model.router.topk.schedule.over=900: model.router.topk.schedule.over = 900",
              "is above train.steps = 10");
  expect_note({"model.router.method=hyperrouter", "model.router.hypernetwork.form=linear",
               "model.router.hypernetwork.hidden=64", "model.router.k=4"},
              "--set model.router.hypernetwork.hidden=64: model.router.hypernetwork.hidden = 64",
              "no hidden layer");
}

TEST(UnreadSettings, OfLayersThatAreNotThereAreSaid) {
  expect_note({"model.moe.first_layers=3"},
              "--set model.moe.first_layers=3: model.moe.first_layers = 3: nothing reads this",
              "the model has 2 layers");
  expect_note({"model.moe.every=3"}, "--set model.moe.every=3: model.moe.every = 3 reaches beyond",
              "the 2 layers that may have experts: only the first of them has any");
  expect_note({"model.moe.every=2", "model.moe.first_layers=1"},
              "--set model.moe.every=2: ", "the 1 layer that may have experts");
  expect_note({"model.moe.every=2", "model.moe.dense_layers=1"},
              "--set model.moe.every=2: ", "the 1 layer that may have experts");
  EXPECT_EQ(notes_of({"model.moe.every=2"}), Notes());
  EXPECT_EQ(notes_of({"model.moe.first_layers=2"}), Notes());
}

TEST(UnreadSettings, AValidationThatIsNeverDueIsSaid) {
  expect_note({"train.steps=10", "train.eval_every=11"},
              "--set train.eval_every=11: train.eval_every = 11 is above",
              "before the first step and after the last alone");
  EXPECT_EQ(notes_of({"train.steps=10", "train.eval_every=10"}), Notes());
}

TEST(UnreadSettings, NoLayerWithExpertsIsAnError) {
  EXPECT_TRUE(testing::error_of([] { notes_of({"model.moe.first_layers=0"}); })
                  .starts_with("--set model.moe.first_layers=0: model.moe."
                               "first_layers = 0 leaves no layer with experts"));
  testing::expect_error(
      [&] {
        notes_of({"model.moe.first_layers=1", "model.moe.dense_layers=1"});
      },
      {"(model.moe.dense_layers = 1)"});
}

TEST(UnreadSettings, ARunsOwnConfigHasNoneAndNeitherHasARecipeOfTheRepository) {
  EXPECT_EQ(read_recipe(written_out(testing::recipe_from({}))).notes, Notes());
  namespace fs = std::filesystem;
  for (const auto& entry : fs::recursive_directory_iterator(PENSTOCK_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".toml") continue;
    const ConfigNode node = read_toml(entry.path().string());
    if (!node.find("model") || !node.find("train") || node.find("variants")) continue;
    EXPECT_EQ(read_recipe(node).notes, Notes()) << entry.path();
  }
}

}  // namespace
}  // namespace penstock
