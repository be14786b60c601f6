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

Mesh make_mesh(const ProcessGroup& world, const Layout& layout) {
  PENSTOCK_ASSERT(layout.ranks() == world.size() && layout.data % layout.expert == 0);
  Mesh out{.layout = layout, .world = world};
  const auto [data, tensor, pipeline] = coordinates_of(layout, world.rank());
  // Where an axis is all there is, its group is the world: no further connections are made.
  const auto group = [&](const char* axis, int size, int color) {
    if (size == 1) return ProcessGroup();
    return size == world.size() ? world : world.split(axis, color);
  };
  const int row = pipeline * layout.tensor + tensor;  // ranks that differ in `data` alone
  out.data = group("data", layout.data, row);
  out.tensor = group("tensor", layout.tensor, pipeline * layout.data + data);
  out.pipeline = group("pipeline", layout.pipeline, data * layout.tensor + tensor);
  const int copies = layout.data / layout.expert;
  out.expert = group("expert", layout.expert, row * copies + data / layout.expert);
  out.replicas = layout.expert == 1
                     ? out.data
                     : group("replicas", copies, row * layout.expert + data % layout.expert);
  return out;
}

}  // namespace penstock::dist
