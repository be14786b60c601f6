// Groups along the axes of a layout: the ranks of each group, and that each group carries what its
// ranks send.
#include "penstock/dist/mesh.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/dist/ranks.h"

namespace penstock {
namespace {

using dist::Coordinates;
using dist::Layout;
using dist::Mesh;
using dist::ProcessGroup;
using testing::on_ranks;

/// World ranks of a group's members.
std::vector<std::int64_t> members(const ProcessGroup& group, int world_rank) {
  const at::Tensor all = group.all_gather(torch::full({1}, world_rank, at::kLong)).view(-1);
  return {all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + all.numel()};
}

using Ranks = std::vector<std::int64_t>;

class MeshTest : public testing::RanksTest<> {};

TEST(Coordinates, CountTensorRanksFirst) {
  const Layout layout{.data = 3, .tensor = 2, .pipeline = 2};
  EXPECT_EQ(layout.ranks(), 12);
  EXPECT_EQ(dist::coordinates_of(layout, 0), (Coordinates{0, 0, 0}));
  EXPECT_EQ(dist::coordinates_of(layout, 1), (Coordinates{0, 1, 0}));
  EXPECT_EQ(dist::coordinates_of(layout, 4), (Coordinates{2, 0, 0}));
  EXPECT_EQ(dist::coordinates_of(layout, 11), (Coordinates{2, 1, 1}));
}

TEST_F(MeshTest, DividesEightRanksAlongAllAxes) {
  on_ranks(8, [](const ProcessGroup& world) {
    const Mesh mesh = make_mesh(world, {.data = 2, .tensor = 2, .pipeline = 2, .expert = 2});
    const int rank = world.rank();
    const Ranks data = members(mesh.data, rank), tensor = members(mesh.tensor, rank),
                pipeline = members(mesh.pipeline, rank), expert = members(mesh.expert, rank);
    EXPECT_EQ(data, (Ranks{rank & ~2, rank | 2}));
    EXPECT_EQ(tensor, (Ranks{rank & ~1, rank | 1}));
    EXPECT_EQ(pipeline, (Ranks{rank & ~4, rank | 4}));
    EXPECT_EQ(expert, data);
    EXPECT_EQ(mesh.replicas.size(), 1);
  });
}

TEST_F(MeshTest, DividesExpertsWithinData) {
  on_ranks(4, [](const ProcessGroup& world) {
    const Mesh mesh = make_mesh(world, {.data = 4, .expert = 2});
    const int rank = world.rank();
    EXPECT_EQ(members(mesh.data, rank), (Ranks{0, 1, 2, 3}));
    EXPECT_EQ(members(mesh.expert, rank), rank < 2 ? (Ranks{0, 1}) : (Ranks{2, 3}));
    EXPECT_EQ(members(mesh.replicas, rank), rank % 2 == 0 ? (Ranks{0, 2}) : (Ranks{1, 3}));
    EXPECT_EQ(mesh.expert.name(1), world.name(rank < 2 ? 1 : 3));
    EXPECT_EQ(mesh.expert.seconds(), world.seconds());
  });
}

TEST_F(MeshTest, DividesWholeExpertsOverTensorRanksToo) {
  on_ranks(4, [](const ProcessGroup& world) {
    const Layout layout{.data = 2, .tensor = 2, .expert = 2, .whole_experts = true};
    const Mesh mesh = make_mesh(world, layout);
    const int rank = world.rank();
    EXPECT_EQ(members(mesh.tensor, rank), rank < 2 ? (Ranks{0, 1}) : (Ranks{2, 3}));
    EXPECT_EQ(members(mesh.expert, rank), rank < 2 ? (Ranks{0, 1}) : (Ranks{2, 3}));
    EXPECT_EQ(members(mesh.replicas, rank), rank % 2 == 0 ? (Ranks{0, 2}) : (Ranks{1, 3}));
    EXPECT_EQ(dist::expert_part(layout, coordinates_of(layout, rank)), rank % 2);
    const Coordinates first = first_with_experts(layout, coordinates_of(layout, rank));
    EXPECT_EQ(rank_at(layout, first), rank % 2);
    const Mesh all = make_mesh(world, {.tensor = 4, .expert = 4, .whole_experts = true});
    EXPECT_EQ(members(all.expert, rank), (Ranks{0, 1, 2, 3}));
    // Rows may be in transit in the expert group while the tensor group runs an all_reduce.
    const std::vector<std::int64_t> one(4, 1);
    const auto arrived = all.expert.start_all_to_all(torch::full({4}, rank), one, one);
    const at::Tensor sum = torch::ones({1});
    all.tensor.all_reduce(sum, dist::Reduction::sum);
    EXPECT_EQ(sum.item<float>(), 4);
    EXPECT_TRUE(arrived().equal(at::arange(4)));
    const Mesh copies = make_mesh(world, {.data = 2, .tensor = 2, .whole_experts = true});
    EXPECT_EQ(copies.expert.size(), 1);
    EXPECT_EQ(members(copies.replicas, rank), (Ranks{0, 1, 2, 3}));
  });
}

TEST_F(MeshTest, GroupsAreDividedAgain) {
  on_ranks(4, [](const ProcessGroup& world) {
    const ProcessGroup half = world.split("half", world.rank() / 2);
    const ProcessGroup alone = half.split("alone", half.rank());
    EXPECT_EQ(half.size(), 2);
    EXPECT_EQ(alone.size(), 1);
    const ProcessGroup same = half.split("same", 7);
    EXPECT_EQ(members(same, world.rank()), members(half, world.rank()));
  });
}

TEST_F(MeshTest, SendsAlongARing) {
  on_ranks(3, [](const ProcessGroup& world) {
    const int next = (world.rank() + 1) % 3, before = (world.rank() + 2) % 3;
    at::Tensor mine = torch::full({2, 3}, world.rank(), at::kDouble),
               found = torch::empty({2, 3}, at::kDouble);
    for (int round = 0; round < 3; ++round) {
      if (world.rank() == 0) {
        world.send(mine + round, next);
        world.receive(found, before);
      } else {
        world.receive(found, before);
        world.send(mine + round, next);
      }
      EXPECT_TRUE(found.eq(before + round).all().item<bool>());
    }
  });
}

}  // namespace
}  // namespace penstock
