#include "penstock/dist/mesh.h"

namespace penstock::dist {
namespace {

/// The ranks of one pipeline stage that `expert` divides.
struct ExpertRanks {
  int count = 1, index = 0;  // number of these ranks, and this rank's index among them
  int color = 0;             // the same for all these ranks
};

ExpertRanks expert_ranks(const Layout& layout, const Coordinates& place) {
  if (layout.whole_experts)
    return {layout.data * layout.tensor, place.data * layout.tensor + place.tensor, place.pipeline};
  return {layout.data, place.data, place.pipeline * layout.tensor + place.tensor};
}

}  // namespace

Coordinates coordinates_of(const Layout& layout, int rank) {
  PENSTOCK_ASSERT(rank >= 0 && rank < layout.ranks());
  return {.data = rank / layout.tensor % layout.data,
          .tensor = rank % layout.tensor,
          .pipeline = rank / layout.tensor / layout.data};
}

int rank_at(const Layout& layout, const Coordinates& place) {
  return (place.pipeline * layout.data + place.data) * layout.tensor + place.tensor;
}

int expert_part(const Layout& layout, const Coordinates& place) {
  return expert_ranks(layout, place).index % layout.expert;
}

Coordinates first_with_experts(const Layout& layout, const Coordinates& place) {
  const int part = expert_part(layout, place);
  if (!layout.whole_experts) return {part, place.tensor, place.pipeline};
  return {part / layout.tensor, part % layout.tensor, place.pipeline};
}

GroupColors colors_of(const Layout& layout, int rank) {
  const Coordinates place = coordinates_of(layout, rank);
  const ExpertRanks experts = expert_ranks(layout, place);
  return {.data = place.pipeline * layout.tensor + place.tensor,
          .tensor = place.pipeline * layout.data + place.data,
          .pipeline = place.data * layout.tensor + place.tensor,
          .expert = experts.color * layout.expert_copies() + experts.index / layout.expert,
          .replicas = experts.color * layout.expert + experts.index % layout.expert};
}

Mesh make_mesh(const ProcessGroup& world, const Layout& layout) {
  PENSTOCK_ASSERT(layout.ranks() == world.size() &&
                  expert_ranks(layout, {}).count % layout.expert == 0);
  Mesh out{.layout = layout, .world = world};
  const GroupColors colors = colors_of(layout, world.rank());
  // An axis that spans all ranks uses the world as its group, which saves connections.
  const auto group = [&](const char* axis, int size, int color) {
    if (size == 1) return ProcessGroup();
    return size == world.size() ? world : world.split(axis, color);
  };
  out.data = group("data", layout.data, colors.data);
  out.tensor = group("tensor", layout.tensor, colors.tensor);
  out.pipeline = group("pipeline", layout.pipeline, colors.pipeline);
  // With whole_experts this group must not be the world, which `tensor` may use: its exchanges of
  // tokens run while the ranks of `tensor` add up rows.
  out.expert = layout.whole_experts && layout.expert > 1
                   ? world.split("expert", colors.expert)
                   : group("expert", layout.expert, colors.expert);
  out.replicas = layout.divides_experts()
                     ? group("replicas", layout.expert_copies(), colors.replicas)
                     : out.data;
  return out;
}

}  // namespace penstock::dist
