// The plans of 1,024 ranks under layouts over all axes: groups divide the ranks, each replica holds
// the model once, and all ranks hold about as much.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/train/layout_plans.h"

namespace penstock {
namespace {

using dist::Layout;
using testing::Axis;
using testing::elements;
using testing::Groups;
using testing::groups_of;
using testing::Holdings;
using testing::kAxes;
using testing::kPlanCases;
using testing::large_model;
using testing::name_of;
using testing::PlanCase;
using testing::Slices;

/// The ranks of a rank's group, from the rank's coordinates alone.
std::vector<int> seen_from(const Layout& layout, int rank, Axis axis) {
  const dist::Coordinates at = dist::coordinates_of(layout, rank);
  std::vector<int> out;
  const auto add = [&](dist::Coordinates place) { out.push_back(rank_at(layout, place)); };
  const int e = layout.expert, t = layout.whole_experts ? layout.tensor : 1;
  if (axis == Axis::tensor)
    for (int i = 0; i < layout.tensor; ++i) add({at.data, i, at.pipeline});
  if (axis == Axis::pipeline)
    for (int i = 0; i < layout.pipeline; ++i) add({at.data, at.tensor, i});
  if (axis == Axis::data)
    for (int i = 0; i < layout.data; ++i) add({i, at.tensor, at.pipeline});
  // The ranks that share experts, in their order: along data, or along data and tensor.
  const int own = t == 1 ? at.data : at.data * t + at.tensor;
  for (int i = 0; i < layout.data * t; ++i)
    if ((axis == Axis::expert && i / e == own / e) || (axis == Axis::replicas && i % e == own % e))
      add({i / t, t == 1 ? at.tensor : i % t, at.pipeline});
  return out;
}

TEST(LayoutPlan, GroupsOfAThousandRanksDivideThemAlongEachAxis) {
  for (const PlanCase& plan : kPlanCases) {
    SCOPED_TRACE(name_of(plan));
    ASSERT_EQ(plan.layout.ranks(), 1024);
    const Groups groups = groups_of(plan.layout);
    std::map<Axis, std::set<int>> members;
    for (const auto& [key, ranks] : groups)
      for (const int rank : ranks) {
        EXPECT_TRUE(members[key.first].insert(rank).second);
        if (key.first != Axis::world) {
          EXPECT_EQ(seen_from(plan.layout, rank, key.first), ranks) << "rank " << rank;
        }
      }
    for (const Axis axis : kAxes) EXPECT_EQ(members[axis].size(), 1024U);
  }
}

bool overlap(const std::vector<IndexRange>& a, const std::vector<IndexRange>& b) {
  return std::ranges::any_of(a, [&](const IndexRange& x) {
    return std::ranges::any_of(
        b, [&](const IndexRange& y) { return x.first < y.last && y.first < x.last; });
  });
}

bool overlap(const Slice& a, const Slice& b) {
  for (std::size_t axis = 0; axis < a.ranges.size(); ++axis)
    if (!overlap(a.ranges[axis], b.ranges[axis])) return false;
  return true;
}

/// Expects that the slices of one replica's ranks cover each tensor of the model once.
void expect_covered(const std::map<std::string, std::vector<Slice>>& held, const Slices& whole) {
  ASSERT_EQ(held.size(), whole.size());
  for (const auto& [name, slice] : whole) {
    const std::vector<Slice>& pieces = held.at(name);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      sum += elements(pieces[i]);
      for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(pieces[i], pieces[j])) << name;
    }
    EXPECT_EQ(sum, elements(slice)) << name;
  }
}

TEST(LayoutPlan, EachReplicaHoldsEveryTensorOnce) {
  const ModelConfig config = large_model();
  const Slices whole = model_slices(config, {});
  for (const PlanCase& plan : kPlanCases) {
    SCOPED_TRACE(name_of(plan));
    const Layout& l = plan.layout;
    Holdings holdings(plan);
    // The number of data ranks that together hold whole layers.
    const int rows = std::max(1, l.whole_experts ? l.expert / l.tensor : l.expert);
    for (const int block : {0, l.data / rows - 1}) {
      std::map<std::string, std::vector<Slice>> held;
      for (int stage = 0; stage < l.pipeline; ++stage)
        for (int data = block * rows; data < (block + 1) * rows; ++data)
          for (int tensor = 0; tensor < l.tensor; ++tensor)
            for (const auto& [name, slice] : holdings.of(rank_at(l, {data, tensor, stage})))
              if (auto& pieces = held[name]; std::ranges::find(pieces, slice) == pieces.end())
                pieces.push_back(slice);
      expect_covered(held, whole);
    }
  }
}

TEST(LayoutPlan, AThousandRanksHoldEachPieceFirstOnce) {
  ModelConfig config = large_model();
  config.layers = 4;  // fewer names
  config = config.resolved();
  std::int64_t whole = 0;
  for (const auto& [name, slice] : model_slices(config, {})) whole += elements(slice);
  for (const bool whole_experts : {false, true}) {
    const Layout layout{
        .data = 64, .tensor = 4, .pipeline = 4, .expert = 16, .whole_experts = whole_experts};
    std::int64_t counted = 0;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const Slices slices = model_slices(config, part_of_rank(config, layout, rank));
      for (const std::string& name : first_held(config, layout, rank))
        counted += elements(slices.at(name));
    }
    EXPECT_EQ(counted, whole) << whole_experts;
  }
}

std::int64_t elements(const Slices& slices) {
  std::int64_t out = 0;
  for (const auto& [name, slice] : slices) out += elements(slice);
  return out;
}

/// No rank holds more than the mean plus one end of the model and, if stages differ in size, one
/// layer.
TEST(LayoutPlan, RanksAreBalanced) {
  for (const PlanCase& plan : kPlanCases) {
    SCOPED_TRACE(name_of(plan));
    const Layout& l = plan.layout;
    Holdings holdings(plan);
    std::int64_t largest = 0;
    double sum = 0;
    for (int rank = 0; rank < l.ranks(); ++rank) {
      largest = std::max(largest, elements(holdings.of(rank)));
      sum += static_cast<double>(elements(holdings.of(rank)));
    }
    const ModelConfig& c = holdings.config();
    const double end = static_cast<double>((c.vocab + 1) * c.d_model);
    double layer = 0;
    for (const auto& [name, slice] : holdings.of(0))
      if (name.starts_with("layer_0.")) layer += static_cast<double>(elements(slice));
    const double more = l.pipeline == 1 ? 0 : end + (c.layers % l.pipeline == 0 ? 0 : layer);
    EXPECT_LE(static_cast<double>(largest), sum / l.ranks() + more);
  }
}

}  // namespace
}  // namespace penstock
