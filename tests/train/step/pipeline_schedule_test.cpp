// Orders of passes through pipelines of up to 1,024 ranks, simulated without processes.
#include "penstock/train/step/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace penstock::pipelines {
namespace {

/// The result of simulating the actions of all stages. Each pass takes one tick.
struct Play {
  bool finished = false;
  std::size_t ticks = 0;
  /// By (from, to): (part, piece, direction) of each message, in the order of the sends and in the
  /// order of the receives.
  using Messages = std::map<std::pair<int, int>, std::vector<std::tuple<std::size_t, int, bool>>>;
  Messages sent, awaited;
};

class Player {
 public:
  Player(std::size_t parts, int stages, int chunks)
      : stages_(stages), chunks_(chunks), next_(static_cast<std::size_t>(stages)) {
    for (int stage = 0; stage < stages; ++stage)
      actions_.push_back(stage_actions(parts, stage, stages, chunks));
  }

  Play play() {
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<std::pair<int, StageAction>> now;
      for (int stage = 0; stage < stages_; ++stage)
        if (const StageAction* action = ready(stage)) now.emplace_back(stage, *action);
      for (const auto& [stage, action] : now) {
        do_it(stage, action);
        moved = true;
      }
      if (moved) ++out_.ticks;
    }
    out_.finished = true;
    for (int stage = 0; stage < stages_; ++stage)
      out_.finished &= next_[at(stage)] == actions_[at(stage)].size();
    return out_;
  }

 private:
  using Pass = std::tuple<std::size_t, int, bool>;  // part, piece of the layers, backward
  static std::size_t at(int stage) { return static_cast<std::size_t>(stage); }
  int pieces() const { return stages_ * chunks_; }
  static bool back(const StageAction& action) {
    return action.direction == PassDirection::backward;
  }
  Pass pass_of(int stage, const StageAction& action) const {
    return {action.part, action.chunk * stages_ + stage, back(action)};
  }
  /// The passes that must be finished before `pass`.
  std::vector<Pass> needs(const Pass& pass) const {
    const auto [part, piece, backward] = pass;
    std::vector<Pass> out;
    if (!backward && piece > 0) out.push_back({part, piece - 1, false});
    if (backward) out.push_back({part, piece, false});
    if (backward && piece + 1 < pieces()) out.push_back({part, piece + 1, true});
    return out;
  }
  const StageAction* ready(int stage) const {
    const auto& actions = actions_[at(stage)];
    if (next_[at(stage)] == actions.size()) return nullptr;
    const StageAction& action = actions[next_[at(stage)]];
    for (const Pass& pass : needs(pass_of(stage, action)))
      if (!done_.contains(pass)) return nullptr;
    return &action;
  }
  void do_it(int stage, const StageAction& action) {
    const Pass pass = pass_of(stage, action);
    const auto [part, piece, backward] = pass;
    EXPECT_TRUE(done_.insert(pass).second) << "a stage does the same pass twice";
    ++next_[at(stage)];
    const int from = backward ? piece + 1 : piece - 1, to = backward ? piece - 1 : piece + 1;
    if (from >= 0 && from < pieces())
      out_.awaited[{from % stages_, stage}].push_back({part, piece, backward});
    if (to >= 0 && to < pieces()) out_.sent[{stage, to % stages_}].push_back({part, to, backward});
  }

  int stages_, chunks_;
  std::vector<std::vector<StageAction>> actions_;
  std::vector<std::size_t> next_;
  std::set<Pass> done_;
  Play out_;
};

TEST(PipelineSchedule, OfOneStageGoesPartByPart) {
  using enum PassDirection;
  EXPECT_EQ(stage_actions(2, 0, 1),
            (std::vector<StageAction>{{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}}));
}

TEST(PipelineSchedule, WarmsUpGoesInTurnAndDrains) {
  using enum PassDirection;
  EXPECT_EQ(
      stage_actions(3, 1, 3),
      (std::vector<StageAction>{
          {forward, 0}, {forward, 1}, {backward, 0}, {forward, 2}, {backward, 1}, {backward, 2}}));
}

/// Calls check(parts, stages, chunks) for all combinations that a schedule accepts.
template <class Check>
void for_layouts(const Check& check) {
  for (const int stages : {1, 2, 3, 4, 8, 16})
    for (const std::size_t parts : {1, 2, 3, 4, 5, 7, 8, 16, 32, 33, 48})
      for (const int chunks : {1, 2, 3}) {
        if (chunks > 1 && parts % static_cast<std::size_t>(stages) != 0) continue;
        SCOPED_TRACE(::testing::Message()
                     << stages << " stages of " << chunks << ", parts " << parts);
        check(parts, stages, chunks);
      }
}

TEST(PipelineSchedule, EndsWithNoMoreIdleTimeThanItSays) {
  for_layouts([](std::size_t parts, int stages, int chunks) {
    const Play play = Player(parts, stages, chunks).play();
    EXPECT_TRUE(play.finished);
    const std::size_t passes = 2 * parts * static_cast<std::size_t>(chunks);
    EXPECT_EQ(play.ticks, passes + 2 * static_cast<std::size_t>(stages - 1));
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(stage_actions(parts, stage, stages, chunks).size(), passes);
      if (chunks == 1) {
        EXPECT_EQ(passes_held(parts, stage, stages),
                  std::min(parts, static_cast<std::size_t>(stages - stage)));
      }
    }
  });
}

TEST(PipelineSchedule, SendsBetweenTwoStagesInTheOrderOfTheirReceives) {
  for_layouts([](std::size_t parts, int stages, int chunks) {
    const Play play = Player(parts, stages, chunks).play();
    EXPECT_EQ(play.sent, play.awaited);
  });
}

/// 1,024 ranks as data × pipeline. The data ranks share the 4,096 parts of a step.
TEST(PipelineSchedule, PlansAThousandRanks) {
  for (const int stages : {2, 8, 32, 64, 128}) {
    const std::size_t parts = 4096 * static_cast<std::size_t>(stages) / 1024;
    for (const int chunks : {1, 2}) {
      const Play play = Player(parts, stages, chunks).play();
      EXPECT_TRUE(play.finished) << stages << " stages of " << chunks;
      const std::size_t passes = 2 * parts * static_cast<std::size_t>(chunks);
      EXPECT_EQ(play.ticks, passes + 2 * static_cast<std::size_t>(stages - 1)) << stages;
      std::size_t most = 0;
      for (int stage = 0; stage < stages; ++stage)
        most = std::max(most, passes_held(parts, stage, stages, chunks));
      EXPECT_LE(most, static_cast<std::size_t>((chunks + 1) * stages)) << chunks;
    }
  }
}

}  // namespace
}  // namespace penstock::pipelines
