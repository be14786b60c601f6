// Training whose ranks train apart between outer steps: what a checkpoint contains, and how a run
// continues from it, with the same number of ranks and with others.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <csignal>
#include <mutex>

#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/error_of.h"
#include "tests/dist/ranks.h"
#include "tests/train/run_fixture.h"
#include "tests/train/signal_at.h"
#include "tests/train/trainer_state.h"

namespace penstock::local_steps {
namespace {

using testing::expect_equal;
using testing::on_ranks;
using State = testing::TrainerState;  // on rank 0

constexpr std::int64_t kLocal = 4;

class LocalStepsTrainer : public testing::SmallCorpusTest<testing::RanksTest<>> {
 protected:
  Recipe recipe(const std::string& architecture, const std::string& method = "topk") const {
    ConfigNode node = testing::small_recipe_node(method, 8, 16, "unused");
    node.set("model.architecture", architecture);
    if (architecture == "transformer-xl") node.set("model.transformer_xl.dropout", 0.1);
    node.set("train.micro_batch", 2);
    node.set("train.gradient_sum", "tree");
    node.set("parallel.local_steps", kLocal);
    return read_recipe(node);
  }
  /// The states of a training at `steps`, begun from the state `from` or from the beginning.
  std::vector<State> history(const Recipe& recipe, int ranks,
                             const std::vector<std::int64_t>& steps, const State* from = nullptr) {
    std::vector<State> out;
    on_ranks(ranks, [&](const dist::ProcessGroup& group) {
      const dist::Mesh mesh = dist::make_mesh(group, {.data = ranks});
      std::unique_lock lock(mutex_);  // all threads share the default generator
      Trainer trainer(recipe, *corpus_, mesh);
      lock.unlock();
      const bool first = group.rank() == 0;
      if (from && first) testing::restore(trainer, *from);
      if (from && !first) trainer.restore(0, {}, {}, "");
      for (const std::int64_t step : steps) {
        while (trainer.step() < step) trainer.advance();
        State state = testing::state_of(trainer);
        if (first) out.push_back(std::move(state));
      }
    });
    return out;
  }
  std::mutex mutex_;
};

TEST_F(LocalStepsTrainer, GoOnFromTheMiddleOfAPhaseToTheSameEnd) {
  for (const std::string architecture : {"decoder", "transformer-xl"}) {
    const Recipe recipe = this->recipe(architecture, architecture == "decoder" ? "remoe" : "topk");
    const auto straight = history(recipe, 2, {4, 6, 8, 12});
    expect_equal(history(recipe, 2, {4, 6, 8, 12}).back(), straight.back());
    for (const std::size_t i : {0, 1, 2})
      expect_equal(history(recipe, 2, {12}, &straight[i]).back(), straight.back());
    // In the middle of a phase, the model is that of the last outer step, except for the balancers'
    // state.
    for (const auto& [name, value] : straight[0].model) {
      if (name.find("balancer") != std::string::npos) continue;
      EXPECT_TRUE(torch::equal(straight[1].model.at(name), value)) << name;
      EXPECT_FALSE(torch::equal(straight[2].model.at(name), value)) << name;
    }
    const auto& middle = straight[1].optimizer;
    EXPECT_TRUE(middle.contains("outer.rank.1.w.embed_tokens"));
    EXPECT_FALSE(straight[2].optimizer.contains("outer.rank.1.w.embed_tokens"));
    EXPECT_FALSE(torch::equal(middle.at("outer.rank.0.w.embed_tokens"),
                              middle.at("outer.rank.1.w.embed_tokens")));
  }
}

TEST_F(LocalStepsTrainer, GoOnWithAnotherNumberOfRanksFromTheMeanOfTheirMoments) {
  const Recipe recipe = this->recipe("decoder");
  const State middle = history(recipe, 2, {6}).back();
  for (const int ranks : {1, 3, 4}) {
    const State found = history(recipe, ranks, {6}, &middle).back();
    testing::expect_equal(found.model, middle.model);
    std::size_t own = 0;
    for (const auto& [name, value] : found.optimizer) {
      const std::string rank = "outer.rank.";
      if (!name.starts_with(rank)) {
        EXPECT_TRUE(torch::equal(value, middle.optimizer.at(name))) << name;
        continue;
      }
      const std::string rest = name.substr(rank.size() + 1);
      const at::Tensor mean =
          (middle.optimizer.at(rank + "0" + rest) + middle.optimizer.at(rank + "1" + rest)) / 2;
      EXPECT_TRUE(torch::equal(value, mean)) << name;
      ++own;
    }
    EXPECT_EQ(found.optimizer.contains("outer.rank.3.m.embed_tokens"), ranks == 4);
    EXPECT_EQ(own % static_cast<std::size_t>(ranks), 0U);
    EXPECT_GT(own, 0U);
    const auto ends = history(recipe, ranks, {8}, &middle);
    expect_equal(history(recipe, ranks, {8}, &middle).back(), ends.back());
  }
}

TEST_F(LocalStepsTrainer, RefuseOnAllRanksAStateThatLacksSomething) {
  const Recipe recipe = this->recipe("decoder");
  State middle = history(recipe, 2, {6}).back();
  middle.optimizer.erase("outer.rank.1.v.embed_tokens");
  EXPECT_EQ(testing::error_of([&] { history(recipe, 2, {6}, &middle); }),
            "optimizer state: 'outer.rank.1.v.embed_tokens' is missing");
}

using LocalStepsRun = testing::TrainRun;

TEST_F(LocalStepsRun, OfOneProcessIsStoppedInAPhaseAndEndsAsIfItWereNot) {
  set("parallel.local_steps", kLocal);
  validate_every(8);
  auto files = testing::signal_at(6, SIGTERM);
  ASSERT_EQ(run("stopped", &files), RunOutcome::interrupted);
  EXPECT_EQ(latest_step("stopped"), 5);  // the log has a step 0
  ASSERT_EQ(run("stopped"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("stopped");
  for (const auto& line : read_metrics(real_file_system(), path("stopped/metrics.jsonl"))) {
    const auto step = line.at("step").get<std::int64_t>();
    EXPECT_EQ(line.contains("outer_step"), step > 0 && step % kLocal == 0) << step;
    if (line.contains("outer_step")) {
      EXPECT_EQ(line["outer_step"], step / kLocal);
    }
  }
}

}  // namespace
}  // namespace penstock::local_steps
