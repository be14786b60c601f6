// What ranks compare: before their first step, whether the passes of ranks that compute layers
// together are the same; before a checkpoint, the weights that several of them hold.
#include "penstock/train/ranks/agreement.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/dist/message_of.h"
#include "tests/dist/ranks.h"
#include "tests/train/agreed_error.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

/// What a rank would compute again, and with how many threads.
struct Passes {
  Recomputation recomputed = {};
  int threads = 1;
};

constexpr const char* kOtherLayers = " has another choice of layers to compute again than ";
constexpr const char* kOtherThreads = " has another number of threads than ";

class SamePasses : public testing::RanksTest<> {
 protected:
  /// What rank 0 says about the ranks' passes; "accepted" if it says nothing.
  static std::string said_of(const dist::Layout& layout, const std::vector<Passes>& ranks) {
    return testing::agreed_error(layout.ranks(), [&](const dist::ProcessGroup& group) {
      const Passes& mine = ranks[static_cast<std::size_t>(group.rank())];
      check_same_passes(group, layout, mine.recomputed, mine.threads);
    });
  }
  static void expect_names(const std::string& said, const std::string& rank, const char* what,
                           const std::string& first, const std::string& end) {
    EXPECT_TRUE(said.starts_with(rank + " on ")) << said;
    testing::expect_says(said, {what + first + " on ", end});
  }
};

TEST_F(SamePasses, ComputeTheSameLayersAgainWhereLayersExchange) {
  const Recomputation first = {Recomputed::layer, Recomputed::nothing},
                      both = {Recomputed::layer, Recomputed::layer},
                      experts = {Recomputed::experts, Recomputed::experts};
  const std::string keys = ": train.memory_budget, train.recompute_experts: ";
  for (const dist::Layout& layout :
       {dist::Layout{.tensor = 2}, dist::Layout{.data = 2, .expert = 2}}) {
    EXPECT_EQ(said_of(layout, {{}, {}}), "accepted");
    EXPECT_EQ(said_of(layout, {{first}, {first}}), "accepted");
    expect_names(said_of(layout, {{}, {first}}), "rank 1", kOtherLayers, "rank 0",
                 keys + "nothing -> layer 0 whole; ");
    expect_names(said_of(layout, {{both}, {first}}), "rank 1", kOtherLayers, "rank 0",
                 keys + "layers 0-1 whole -> layer 0 whole; ");
    expect_names(said_of(layout, {{experts}, {}}), "rank 1", kOtherLayers, "rank 0",
                 keys + "the experts of layers 0-1 -> nothing; ");
  }
  // No pass through these layers exchanges anything.
  EXPECT_EQ(said_of({.data = 2}, {{}, {first}}), "accepted");
}

TEST_F(SamePasses, HaveEqualThreadsWhereRanksMakeTheSameSums) {
  EXPECT_EQ(said_of({.data = 2}, {{.threads = 1}, {.threads = 2}}), "accepted");
  EXPECT_EQ(said_of({.data = 2, .expert = 2}, {{.threads = 1}, {.threads = 2}}), "accepted");
  expect_names(said_of({.tensor = 2}, {{.threads = 4}, {.threads = 3}}), "rank 1", kOtherThreads,
               "rank 0", ": run.threads: 4 -> 3; ");
  // Ranks 0 and 1 make the same sums, and so do ranks 2 and 3.
  const dist::Layout two{.data = 2, .tensor = 2};
  const auto threads = [](const std::vector<int>& of_ranks) {
    std::vector<Passes> out;
    for (const int each : of_ranks) out.push_back({.threads = each});
    return out;
  };
  EXPECT_EQ(said_of(two, threads({1, 1, 2, 2})), "accepted");
  expect_names(said_of(two, threads({1, 1, 2, 1})), "rank 3", kOtherThreads, "rank 2",
               ": run.threads: 2 -> 1; ");
}

TEST_F(SamePasses, AreComparedBeforeTheFirstStepOfARun) {
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  ConfigNode node = testing::small_recipe_node("topk", 2, 16, directory.path("corpus"));
  node.set("train.micro_batch", 1);
  node.set("train.steps", 2);
  node.set("run.threads", 1);
  node.set("parallel.tensor", 2);
  node.set("train.gradient_sum", "tree");
  Recipe counted = with_vocabulary(read_recipe(node), corpus);
  counted.train.memory_budget = "1";
  const double least = count_training(counted, {.tensor = 2}).recomputation.least_bytes;
  const auto failures = testing::failures_on_ranks(
      2,
      [&](const dist::ProcessGroup& group) {
        ConfigNode mine = node;
        if (group.rank() == 1)
          mine.set("train.memory_budget", concat(std::llround(std::ceil(least))));
        train_run(mine, directory.path("run"),
                  {.quiet = true, .group = group, .processes_here = 2});
      },
      {.check = true});
  expect_names(testing::message_of(failures[0]), "rank 1", kOtherLayers, "rank 0",
               ": train.memory_budget, train.recompute_experts: nothing -> ");
  EXPECT_NE(failures[1], nullptr);
}

/// What rank 0 says about the weights of two ranks; "accepted" if it says nothing.
std::string said_of_weights(const std::vector<std::vector<HeldWeights>>& held) {
  const int ranks = static_cast<int>(held.size());
  return testing::agreed_error(ranks, [&](const dist::ProcessGroup& group) {
    check_same_weights(group, held[static_cast<std::size_t>(group.rank())]);
  });
}

/// The rows [first, last) of a matrix of 4 rows.
HeldWeights rows_of(const std::string& name, std::int64_t first, std::int64_t last,
                    at::Tensor numbers) {
  return {name, {.shape = {4, 2}, .ranges = {{{first, last}}, {{0, 2}}}}, std::move(numbers)};
}

/// Numbers that only one rank holds are not there in this test, so reading them would fail.
TEST(SameWeights, AreReadWhereSeveralRanksHoldThem) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const at::Tensor four = torch::arange(8).reshape({4, 2});
  const auto whole = [&](const at::Tensor& numbers) { return rows_of("whole", 0, 4, numbers); };
  const auto held = [&](const at::Tensor& on_rank_1) -> std::vector<std::vector<HeldWeights>> {
    return {{rows_of("divided", 0, 2, {}), whole(four), rows_of("first", 0, 4, {})},
            {rows_of("divided", 2, 4, {}), whole(on_rank_1)}};
  };
  EXPECT_EQ(said_of_weights(held(four.clone())), "accepted");
  const std::string said = said_of_weights(held(four + 1));
  EXPECT_TRUE(said.starts_with("rank 1 on ")) << said;
  testing::expect_says(said, {" has another state of the weights than rank 0 on ", ": whole: "});
}

}  // namespace
}  // namespace penstock
