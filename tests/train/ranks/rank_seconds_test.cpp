// Where one rank sleeps in its layers and the other waits for it: which rank a step reports as
// slow, and the seconds of communication.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "penstock/dist/transport.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_record.h"
#include "penstock/train/trainer.h"
#include "tests/dist/ranks.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

struct SlowCase {
  dist::Layout layout;
  std::int64_t zero = 0;
};

StepOutcome step_of(Trainer& trainer, bool slow) {
  return trainer.advance([&](const StepPlace&) {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(40));
  });
}

class RankSeconds : public testing::SmallCorpusTest<> {
 protected:
  void SetUp() override {
    if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
    node_.set("train.micro_batch", 2);
    node_.set("train.gradient_sum", "tree");
  }
  ConfigNode node_ = testing::small_recipe_node("topk", 8, 16, "unused");
};

TEST_F(RankSeconds, NameTheSlowOneWhoeverWaitsForIt) {
  for (const SlowCase& one : {SlowCase{{.data = 2}},
                              {{.data = 2}, 1},
                              {{.data = 2}, 2},
                              {{.data = 2}, 3},
                              {{.tensor = 2}},
                              {{.pipeline = 2}},
                              {{.data = 2, .expert = 2}},
                              {{.tensor = 2, .expert = 2, .whole_experts = true}}})
    testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
      Recipe recipe = read_recipe(node_);
      recipe.parallel.zero = one.zero;
      const dist::Mesh mesh = dist::make_mesh(group, one.layout);
      Trainer trainer(recipe, *corpus_, mesh);
      const StepOutcome outcome = step_of(trainer, group.rank() == 1);
      const std::vector<double>& seconds = outcome.report.rank_seconds;
      ASSERT_EQ(seconds.size(), 2U);
      EXPECT_GT(seconds[1], seconds[0])
          << "tensor " << one.layout.tensor << " pipeline " << one.layout.pipeline << " expert "
          << one.layout.expert << " zero " << one.zero;
      const auto line = metrics_line(1, outcome, {.peak_flops = 1});
      EXPECT_EQ(line.at("rank_seconds").at("rank"), 1);
      EXPECT_EQ(line.contains("rank_load"), one.layout.expert == 2);
    });
}

/// A rank's step, with a sleep in the first pass that enters a layer forward.
/// @param layer  less than 0: none
/// @param slept  the seconds of the sleep
StepOutcome step_with_sleep(Trainer& trainer, std::int64_t layer, double& slept) {
  return trainer.advance([&](const StepPlace& place) {
    if (slept > 0 || place.layer != layer || place.direction != PassDirection::forward) return;
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    slept = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
}

/// The ranks share no memory, so that a thread gathers a layer's weights while a pass is in the
/// layer before. A rank's own sleep and its communication are never at the same time.
TEST_F(RankSeconds, CountAsCommunicationWhatAPassWaitsForAlone) {
  node_.set("model.layers", 4);
  node_.set("parallel.zero", 3);
  // Rank 1 sleeps in layer 0. In the first step rank 0 sleeps in layer 1, while its thread waits
  // for rank 1 to gather layer 2. In the second step rank 0 has nothing to do but wait.
  testing::on_ranks(2,
                    [&](const dist::ProcessGroup& group) {
                      Trainer trainer(read_recipe(node_), *corpus_,
                                      dist::make_mesh(group, {.data = 2}));
                      trainer.advance();  // makes the groups
                      for (const std::int64_t of_rank_0 : {1, -1}) {
                        group.barrier("step");
                        double slept = 0;
                        const StepOutcome outcome =
                            step_with_sleep(trainer, group.rank() == 1 ? 0 : of_rank_0, slept);
                        EXPECT_LE(outcome.communication_seconds + slept, outcome.seconds);
                        const bool only_waits = group.rank() == 0 && of_rank_0 < 0;
                        EXPECT_GT(outcome.communication_seconds, only_waits ? 0.125 : 0);
                      }
                    },
                    {.shared_memory = false});
}

}  // namespace
}  // namespace penstock
