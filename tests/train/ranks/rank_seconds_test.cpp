// Which rank a step reports as slow, where one rank sleeps in its layers and the other waits for
// it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "penstock/dist/transport.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_record.h"
#include "penstock/train/trainer.h"
#include "tests/base/temp_directory.h"
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

TEST(RankSeconds, NameTheSlowOneWhoeverWaitsForIt) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  ConfigNode node = testing::small_recipe_node("topk", 8, 16, "unused");
  node.set("train.micro_batch", ConfigNode(std::int64_t{2}));
  node.set("train.gradient_sum", ConfigNode(std::string("tree")));
  for (const SlowCase& one : {SlowCase{{.data = 2}},
                              {{.data = 2}, 1},
                              {{.data = 2}, 2},
                              {{.data = 2}, 3},
                              {{.tensor = 2}},
                              {{.pipeline = 2}},
                              {{.data = 2, .expert = 2}},
                              {{.tensor = 2, .expert = 2, .whole_experts = true}}})
    testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
      Recipe recipe = read_recipe(node);
      recipe.parallel.zero = one.zero;
      const dist::Mesh mesh = dist::make_mesh(group, one.layout);
      Trainer trainer(recipe, corpus, mesh);
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

}  // namespace
}  // namespace penstock
