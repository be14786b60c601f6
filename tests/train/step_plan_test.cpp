// A step of 1,024 ranks under layouts over all axes, simulated without processes: no rank waits
// forever, and both sides of an exchange agree. In training, a separate thread exchanges gradients
// in groups of its own. Here this exchange follows the passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/ranks/parameter_units.h"
#include "penstock/train/step/pipeline_schedule.h"
#include "tests/train/layout_plans.h"

namespace penstock {
namespace {

using dist::Layout;
using testing::Axis;
using testing::color_of;
using testing::elements;
using testing::Groups;
using testing::groups_of;
using testing::Holdings;
using testing::kPlanCases;
using testing::name_of;
using testing::PlanCase;

/// An operation of a rank: a collective operation (meet) of its group, or one end of a message.
struct Operation {
  enum class Kind { meet, send, receive } kind = Kind::meet;
  std::pair<Axis, int> group = {};  ///< the group of a collective operation
  int peer = 0;                     ///< the other rank of a message
  std::int64_t elements = 0;        ///< the number of exchanged elements, equal on all sides
  std::tuple<int, std::size_t, int> tag = {};  ///< direction, part and piece of the layers
};
using Program = std::vector<Operation>;

/// A step of one rank: its passes with the exchanges of layers, and the exchanges of gradients by
/// unit. Uses the functions that training uses.
class StepPlan {
 public:
  StepPlan(const PlanCase& plan, std::size_t parts) : plan_(plan), parts_(parts), holdings_(plan) {
    for (const std::string& name : expert_parameters(holdings_.config())) experts_.insert(name);
  }

  Program program_of(int rank) {
    const Layout& l = plan_.layout;
    const dist::Coordinates at = dist::coordinates_of(l, rank);
    const PartRange own = parts_of_rank(parts_, at.data, l.data);
    const ModelPart part = part_of_rank(holdings_.config(), l, rank, plan_.chunks);
    out_.clear();
    for (const StageAction& action :
         stage_actions(own.size(), at.pipeline, l.pipeline, plan_.chunks))
      add_pass(rank, at, action, part, own.first + action.part);
    add_units(rank);
    meet(rank, Axis::world, 1);
    return std::move(out_);
  }

 private:
  static constexpr std::int64_t kTokens = 1024;

  void meet(int rank, Axis axis, std::int64_t elements) {
    out_.push_back({.group = {axis, color_of(plan_.layout, rank, axis)}, .elements = elements});
  }
  void add_pass(int rank, const dist::Coordinates& at, const StageAction& action,
                const ModelPart& part, std::size_t index) {
    const Layout& l = plan_.layout;
    const int pieces = l.pipeline * plan_.chunks, piece = action.chunk * l.pipeline + at.pipeline;
    const int direction = action.direction == PassDirection::forward ? 1 : -1;
    const std::int64_t rows = kTokens * holdings_.config().d_model;
    const auto message = [&](Operation::Kind kind, int other, int to) {
      if (other < 0 || other >= pieces) return;
      out_.push_back({.kind = kind,
                      .peer = rank_at(l, {at.data, at.tensor, other % l.pipeline}),
                      .elements = l.sequence ? rows / l.tensor : rows,
                      .tag = {direction, index, to}});
    };
    message(Operation::Kind::receive, piece - direction, piece);
    const std::int64_t layers = part.layers.empty()
                                    ? holdings_.config().layers
                                    : part.layers[static_cast<std::size_t>(action.chunk)].size();
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (l.tensor > 1) meet(rank, Axis::tensor, rows);  // the sum of attention
      for (int way = 0; way < 2 && l.expert > 1; ++way) meet(rank, Axis::expert, 0);
      if (l.tensor > 1) meet(rank, Axis::tensor, rows);  // the sum of the experts
    }
    message(Operation::Kind::send, piece + direction, piece + direction);
  }
  void add_units(int rank) {
    const Layout& l = plan_.layout;
    std::vector<ParameterSize> sizes;
    for (const auto& [name, slice] : holdings_.of(rank))
      sizes.push_back({.name = name, .elements = elements(slice)});
    const auto of_experts = [&](const std::string& name) {
      return l.divides_experts() && experts_.contains(name);
    };
    for (const ParameterUnit& unit :
         parameter_units(sizes, of_experts, l.data, l.expert_copies())) {
      std::int64_t whole = 0;
      for (std::size_t member = 0; member < unit.spans.size(); ++member)
        whole += unit.elements(static_cast<int>(member));
      meet(rank, unit.experts ? Axis::replicas : Axis::data, whole);
    }
    std::int64_t in_shares = 0;
    const auto& held = holdings_.of(rank);
    for (const std::string& name : parameters_in_shares(backbone_tensors(holdings_.config()), l))
      if (const auto found = held.find(name); found != held.end())
        in_shares += elements(found->second);
    if (in_shares > 0) meet(rank, Axis::tensor, in_shares);
  }

  PlanCase plan_;
  std::size_t parts_;
  Holdings holdings_;
  std::set<std::string> experts_;
  Program out_;
};

/// Simulates programs. A collective operation ends when all ranks of its group have reached it. A
/// receive ends when its message was sent. A send never waits.
class Player {
 public:
  Player(const Layout& layout, std::vector<Program> programs)
      : groups_(groups_of(layout)), programs_(std::move(programs)), next_(programs_.size()) {}

  /// Runs the programs. Returns the number of ranks that reach the end.
  std::size_t play() {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const std::size_t rank = ready_.front();
      ready_.pop_front();
      while (next_[rank] < programs_[rank].size() && passes(rank)) ++next_[rank];
    }
    std::size_t ended = 0;
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      ended += next_[rank] == programs_[rank].size() ? 1 : 0;
    return ended;
  }
  /// The number of messages that were sent and not received.
  std::size_t left() const {
    std::size_t out = 0;
    for (const auto& [pair, sent] : sent_) out += sent.size();
    return out;
  }

 private:
  bool passes(std::size_t rank) {
    const Operation& op = programs_[rank][next_[rank]];
    const int own = static_cast<int>(rank);
    if (op.kind == Operation::Kind::send) {
      sent_[{own, op.peer}].push_back(op);
      ready_.push_back(static_cast<std::size_t>(op.peer));
      return true;
    }
    if (op.kind == Operation::Kind::receive) {
      auto& sent = sent_[{op.peer, own}];
      if (sent.empty()) return false;
      EXPECT_EQ(sent.front().tag, op.tag) << "rank " << rank << " from " << op.peer;
      EXPECT_EQ(sent.front().elements, op.elements);
      sent.pop_front();
      return true;
    }
    return meets(own, op);
  }
  bool meets(int rank, const Operation& op) {
    const std::vector<int>& members = groups_.at(op.group);
    std::set<int>& here = here_[op.group];
    here.insert(rank);
    if (here.size() < members.size()) return false;
    here.clear();
    for (const int member : members) {
      const auto other = static_cast<std::size_t>(member);
      EXPECT_EQ(programs_[other][next_[other]].elements, op.elements) << "rank " << member;
      if (member == rank) continue;
      ++next_[other];
      ready_.push_back(other);
    }
    return true;
  }

  Groups groups_;
  std::vector<Program> programs_;
  std::vector<std::size_t> next_;
  std::deque<std::size_t> ready_;
  std::map<std::pair<int, int>, std::deque<Operation>> sent_;
  std::map<std::pair<Axis, int>, std::set<int>> here_;
};

std::vector<Program> programs_of(const PlanCase& plan) {
  StepPlan step(plan, 8 * static_cast<std::size_t>(plan.layout.data));
  std::vector<Program> out;
  for (int rank = 0; rank < plan.layout.ranks(); ++rank) out.push_back(step.program_of(rank));
  return out;
}

TEST(StepPlan, NobodyWaitsInVain) {
  for (const PlanCase& plan : kPlanCases) {
    SCOPED_TRACE(name_of(plan));
    Player player(plan.layout, programs_of(plan));
    EXPECT_EQ(player.play(), 1024U);
    EXPECT_EQ(player.left(), 0U);
  }
}

/// A rank that omits one collective operation is noticed. So is a rank that sends once too often.
TEST(StepPlan, WhatOneRankDoesOtherwiseIsNoticed) {
  const PlanCase plan{{.data = 64, .tensor = 4, .pipeline = 4, .expert = 64}};
  const auto programs = programs_of(plan);
  const auto first = [](const Program& program, Operation::Kind kind) {
    return std::ranges::find(program, kind, &Operation::kind) - program.begin();
  };
  auto fewer = programs, more = programs;
  fewer[5].erase(fewer[5].begin() + first(fewer[5], Operation::Kind::meet));
  EXPECT_LT(Player(plan.layout, std::move(fewer)).play(), 1024U);
  const Operation sent = more[5][static_cast<std::size_t>(first(more[5], Operation::Kind::send))];
  more[5].push_back(sent);
  Player player(plan.layout, std::move(more));
  player.play();
  EXPECT_EQ(player.left(), 1U);
}

}  // namespace
}  // namespace penstock
