#include "penstock/dist/mesh.h"

namespace penstock::dist {

Coordinates coordinates_of(const Layout& layout, int rank) {
  PENSTOCK_ASSERT(rank >= 0 && rank < layout.ranks());
  return {.data = rank / layout.tensor % layout.data,
          .tensor = rank % layout.tensor,
          .pipeline = rank / layout.tensor / layout.data};
}

int rank_at(const Layout& layout, const Coordinates& place) {
  return (place.pipeline * layout.data + place.data) * layout.tensor + place.tensor;
}

GroupColors colors_of(const Layout& layout, int rank) {
  const auto [data, tensor, pipeline] = coordinates_of(layout, rank);
  const int row = pipeline * layout.tensor + tensor;  // ranks that differ in `data` alone
  const int copies = layout.data / layout.expert;
  return {.data = row,
          .tensor = pipeline * layout.data + data,
          .pipeline = data * layout.tensor + tensor,
          .expert = row * copies + data / layout.expert,
          .replicas = row * layout.expert + data % layout.expert};
}

Mesh make_mesh(const ProcessGroup& world, const Layout& layout) {
  PENSTOCK_ASSERT(layout.ranks() == world.size() && layout.data % layout.expert == 0);
  Mesh out{.layout = layout, .world = world};
  const GroupColors colors = colors_of(layout, world.rank());
  // Where an axis is all there is, its group is the world: no further connections are made.
  const auto group = [&](const char* axis, int size, int color) {
    if (size == 1) return ProcessGroup();
    return size == world.size() ? world : world.split(axis, color);
  };
  out.data = group("data", layout.data, colors.data);
  out.tensor = group("tensor", layout.tensor, colors.tensor);
  out.pipeline = group("pipeline", layout.pipeline, colors.pipeline);
  out.expert = group("expert", layout.expert, colors.expert);
  out.replicas = layout.expert == 1
                     ? out.data
                     : group("replicas", layout.data / layout.expert, colors.replicas);
  return out;
}

}  // namespace penstock::dist
