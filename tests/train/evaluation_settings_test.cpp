// How a model is evaluated: with the settings of its run's last evaluation, except for those that
// the user gives.
#include "penstock/train/evaluation_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "penstock/base/error.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

ModelConfig decoder(std::int64_t context) {
  ModelConfig out;
  out.context = context;
  return out;
}

ModelConfig with_memory() {
  ModelConfig out = decoder(32);
  out.architecture = ModelKind::transformer_xl;
  return out;
}

TEST(EvaluationSettings, AreTheRunsOwn) {
  Recipe run = testing::small_recipe("dense", 6, 16);
  run.train.micro_batch = 3;
  run.train.evaluation.sequence_length = 24;
  run.train.final_eval_tokens = 480;
  run.data.isolate_documents = true;
  const EvaluateOptions own = evaluation_settings(decoder(16), &run, {.split = Split::kTest});
  EXPECT_EQ(own.split, Split::kTest);
  EXPECT_EQ(own.sequence_length, 24);
  EXPECT_EQ(own.batch_sequences, 3);
  EXPECT_EQ(own.max_tokens, 480);
  EXPECT_EQ(own.streams, 0);
  EXPECT_EQ(own.memory_length, -1);
  EXPECT_TRUE(own.isolate_documents);
  // max_tokens = 0 is a setting too: the whole split. Windows of another length have their own
  // batch size.
  const EvaluateOptions other =
      evaluation_settings(decoder(16), &run, {.max_tokens = 0, .keys = {.sequence_length = 64}});
  EXPECT_EQ(other.sequence_length, 64);
  EXPECT_EQ(other.batch_sequences, 64);
  EXPECT_EQ(other.max_tokens, 0);
}

TEST(EvaluationSettings, OfAModelWithoutARunAreTheUsual) {
  const EvaluateOptions usual = evaluation_settings(decoder(512), nullptr, {});
  EXPECT_EQ(usual.sequence_length, 512);
  EXPECT_EQ(usual.batch_sequences, 8);
  EXPECT_EQ(usual.max_tokens, 0);
  EXPECT_EQ(usual.streams, 0);
  EXPECT_FALSE(usual.isolate_documents);
  EXPECT_TRUE(
      evaluation_settings(decoder(512), nullptr, {.isolate_documents = true}).isolate_documents);
  EXPECT_EQ(evaluation_settings(decoder(9000), nullptr, {}).batch_sequences, 1);
  EXPECT_EQ(evaluation_settings(with_memory(), nullptr, {}).streams, 10);
  EXPECT_EQ(evaluation_settings(with_memory(), nullptr, {.keys = {.streams = 0}}).streams, 0);
}

TEST(EvaluationSettings, MemoryIsCarriedAlongStreamsAlone) {
  Recipe run = testing::small_recipe("dense", 2, 16);
  run.train.evaluation.streams = 4;
  run.train.evaluation.memory = 7;
  EXPECT_EQ(evaluation_settings(with_memory(), &run, {}).memory_length, 7);
  EXPECT_EQ(evaluation_settings(with_memory(), &run, {}).streams, 4);
  EXPECT_EQ(evaluation_settings(with_memory(), &run, {.keys = {.memory = 9}}).memory_length, 9);
  EXPECT_THROW(evaluation_settings(with_memory(), &run, {.keys = {.streams = 0, .memory = 9}}),
               Error);
  EXPECT_THROW(evaluation_settings(decoder(16), nullptr, {.keys = {.memory = 9}}), Error);
  EXPECT_THROW(evaluation_settings(decoder(0), nullptr, {}), Error);
}

TEST(EvaluationSettings, RecipesAndCommandsShareTheKeys) {
  const auto find = [](const auto& fields, const std::string& path) {
    return *std::ranges::find(fields, path, &FieldDescription::path);
  };
  for (const std::string key : {"sequence_length", "streams", "memory"}) {
    const auto recipe = find(describe_config<Recipe>(), "train.eval_" + key);
    const auto command = find(describe_config<EvaluationOverrides>(), key);
    EXPECT_EQ(recipe.default_value, command.default_value) << key;
    EXPECT_EQ(recipe.min, command.min) << key;
    const auto meaning = recipe.help.substr(0, recipe.help.rfind(": "));
    EXPECT_TRUE(command.help.starts_with(meaning)) << command.help;
  }
  ConfigNode node;
  node.set("split", "test");
  node.set("streams", 3);
  const auto overrides = read_config<EvaluationOverrides>(node, "options");
  EXPECT_EQ(overrides.split, Split::kTest);
  EXPECT_EQ(overrides.keys.streams, 3);
  EXPECT_FALSE(overrides.max_tokens);
}

}  // namespace
}  // namespace penstock
