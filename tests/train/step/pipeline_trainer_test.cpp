// A run whose layers are on several ranks, and its checkpoints, compared with those of one process.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/temp_directory.h"
#include "tests/dist/ranks.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock::pipelines {
namespace {

using State = testing::TrainerState;

void expect_near(const TensorMap& found, const TensorMap& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const double size = value.to(torch::kDouble).norm().item<double>();
    const double difference = (found.at(name) - value).to(torch::kDouble).norm().item<double>();
    EXPECT_LE(difference, 1e-3 * size) << name;
  }
}

TEST(PipelineTrainer, SavesAndGoesOnAsOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  for (const bool tied : {false, true}) {
    ConfigNode node = testing::small_recipe_node("remoe", 8, 16, "unused");
    node.set("model.tie_embeddings", tied);
    node.set("model.layers", 4);
    node.set("parallel.pipeline_chunks", std::int64_t{tied ? 2 : 1});
    node.set("train.micro_batch", 1);
    const Recipe recipe = read_recipe(node);
    const auto steps = [&](Trainer& trainer, std::int64_t last) {
      while (trainer.step() < last) EXPECT_EQ(trainer.advance().failure, "");
      return testing::state_of(trainer);
    };
    Trainer alone(recipe, corpus);
    const State middle = steps(alone, 3), end = steps(alone, 6);
    const dist::Layout layout{.data = 2, .pipeline = 2};
    testing::on_ranks(layout.ranks(), [&](const dist::ProcessGroup& world) {
      const dist::Mesh mesh = dist::make_mesh(world, layout);
      Trainer mine(recipe, corpus, mesh);
      const State state = steps(mine, 3);
      Trainer again(recipe, corpus, mesh);
      testing::restore(again, state);
      const State last = steps(again, 6);
      if (world.rank() > 0) return;
      expect_near(state.model, middle.model);
      expect_near(state.optimizer, middle.optimizer);
      expect_near(last.model, end.model);
    });
  }
}

}  // namespace
}  // namespace penstock::pipelines
