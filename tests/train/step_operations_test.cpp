// The operations of training steps under small layouts, as the groups' transports carry them: all
// ranks of a group call the same ones in the same order, and the data change neither.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/train/trainer.h"
#include "tests/dist/ranks.h"
#include "tests/dist/recorder.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

using testing::RecordedCall;
using testing::RecordedCalls;
using testing::RecordedGroups;
using testing::Recorder;

struct RecordedLayout {
  std::string name;
  dist::Layout layout;
  int zero = 0;
  int chunks = 1;
  bool shared_memory = true;
};

const RecordedLayout kRecordedLayouts[] = {
    {"data", {.data = 2}},
    {"three data ranks", {.data = 3}},
    {"zero 1", {.data = 2}, 1},
    {"zero 2", {.data = 2}, 2},
    {"zero 3", {.data = 2}, 3},
    {"zero 2 between machines", {.data = 2}, 2, 1, false},
    {"zero 3 between machines", {.data = 2}, 3, 1, false},
    {"experts, zero 3", {.data = 4, .expert = 2}, 3, 1, false},
    {"stages of two chunks", {.data = 2, .pipeline = 2}, 0, 2},
    {"rows, zero 2", {.data = 2, .tensor = 2, .sequence = true}, 2},
    {"whole experts", {.tensor = 2, .expert = 2, .whole_experts = true}},
    {"all axes", {.data = 2, .tensor = 2, .pipeline = 2, .expert = 2}, 1},
};

class StepOperations : public testing::SmallCorpusTest<testing::RanksTest<>> {
 protected:
  /// Records two steps. Another seed gives other batches, weights and draws.
  RecordedGroups recorded(const RecordedLayout& how, std::int64_t seed) const {
    ConfigNode node = testing::small_recipe_node("remoe", 12, 16, "unused");
    node.set("model.layers", 4);
    node.set("train.micro_batch", 1);
    node.set("train.seed", seed);
    node.set("parallel.zero", std::int64_t{how.zero});
    node.set("parallel.pipeline_chunks", std::int64_t{how.chunks});
    const Recipe recipe = read_recipe(node);
    Recorder recorder;
    const auto train = [&](const dist::ProcessGroup& world) {
      Trainer trainer(recipe, *corpus_, dist::make_mesh(world, how.layout));
      while (trainer.step() < 2) EXPECT_EQ(trainer.advance().failure, "");
    };
    testing::on_ranks(how.layout.ranks(), train,
                      {.shared_memory = how.shared_memory, .wrap = recorder.wrap()});
    return recorder.groups();
  }
};

/// The kinds of all operations, by group and rank. The groups that only exchange weights and
/// gradients also have the bytes. Records of a step, which go through the world, and rows for
/// experts, which go through the axes `expert` and `tensor`, have as many bytes as the data say.
std::map<std::string, std::vector<std::string>> order_of(const RecordedGroups& groups) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [title, ranks] : groups) {
    const std::string axis = title.substr(title.rfind('/') + 1);
    const bool by_data =
        title == "world" || axis.starts_with("expert=") || axis.starts_with("tensor=");
    for (const auto& [rank, calls] : ranks)
      for (const RecordedCall& call : calls) {
        std::string said = call.kind;
        for (const auto* bytes : {&call.sent, &call.received})
          for (std::size_t i = 0; i < bytes->size() && !by_data; ++i)
            said += concat(" ", (*bytes)[i]);
        out[concat(title, ", rank ", rank)].push_back(said);
      }
  }
  return out;
}

TEST_F(StepOperations, AreTheSameOnAllRanksAndForAllData) {
  for (const RecordedLayout& how : kRecordedLayouts) {
    SCOPED_TRACE(how.name);
    const RecordedGroups one = recorded(how, 1), other = recorded(how, 2);
    EXPECT_TRUE(one.contains("world"));
    EXPECT_EQ(testing::differences(one), std::vector<std::string>());
    const auto first = order_of(one), second = order_of(other);
    ASSERT_EQ(first.size(), second.size());
    for (const auto& [place, calls] : first)
      EXPECT_EQ(fmt::format("{}", fmt::join(calls, "\n")),
                fmt::format("{}", fmt::join(second.at(place), "\n")))
          << place;
  }
}

/// Twelve micro-batches go through two stages of one chunk: the first stage sends rows of each, and
/// the second sends gradients of each, in each of two steps. A message has 16 rows of 32 numbers
/// and the sender's state.
TEST_F(StepOperations, HaveTheMessagesOfEachMicroBatch) {
  const RecordedGroups groups = recorded({"stages", {.pipeline = 2}}, 1);
  const std::int64_t bytes = 4 * (16 * 32 + 1);
  for (const int rank : {0, 1}) {
    const auto sent = testing::messages(groups.at("world").at(rank), "send", 1 - rank);
    EXPECT_EQ(std::ranges::count(sent, bytes), 2 * 12) << rank;
  }
}

/// What one rank does otherwise is found: an operation that it leaves out, one of another kind,
/// other bytes, and a message that nobody receives.
TEST_F(StepOperations, ThatDifferAreFound) {
  const RecordedGroups groups = recorded({"data", {.data = 2}, 2}, 1);
  ASSERT_EQ(testing::differences(groups), std::vector<std::string>());
  const auto found = [&](const std::function<void(RecordedCalls&)>& change) {
    RecordedGroups changed = groups;
    change(changed.at("world/gradients=0").at(1));
    return !testing::differences(changed).empty();
  };
  EXPECT_FALSE(found([](RecordedCalls&) {}));
  EXPECT_TRUE(found([](RecordedCalls& calls) { calls.pop_back(); }));
  EXPECT_TRUE(found([](RecordedCalls& calls) { calls.back().kind = "shared_bytes"; }));
  EXPECT_TRUE(found([](RecordedCalls& calls) { ++calls.front().received[0]; }));
  EXPECT_TRUE(found(
      [](RecordedCalls& calls) { calls.push_back({.kind = "send", .sent = {8}, .peer = 0}); }));
}

}  // namespace
}  // namespace penstock
