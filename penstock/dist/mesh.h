// How the processes of a run are divided between the kinds of parallelism: the ranks that differ in
// one axis alone are a group. What is divided along an axis, and when, is not decided here.
#pragma once

#include "penstock/dist/group.h"

namespace penstock::dist {

/// Ranks along each axis, and, of those along `data`, how many hold a layer's experts between them.
struct Layout {
  int data = 1, tensor = 1, pipeline = 1;
  int expert = 1;         ///< divides data
  bool sequence = false;  ///< whether the ranks of `tensor` divide the rows between products too

  int ranks() const { return data * tensor * pipeline; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// A rank's place: rank = (pipeline · layout.data + data) · layout.tensor + tensor. So the ranks
/// that talk most, those of `tensor`, are neighbours and on one machine where it has as many.
struct Coordinates {
  int data = 0, tensor = 0, pipeline = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};
/// REQUIRES: rank < layout.ranks().
Coordinates coordinates_of(const Layout& layout, int rank);
int rank_at(const Layout& layout, const Coordinates& place);

/// Of a rank, by group: the ranks that say the same number are one, in the order of the world.
struct GroupColors {
  int data = 0, tensor = 0, pipeline = 0, expert = 0, replicas = 0;
};
/// REQUIRES: rank < layout.ranks(); layout.data is a multiple of layout.expert.
GroupColors colors_of(const Layout& layout, int rank);

/// The groups that a rank is in. A default one is a process by itself.
struct Mesh {
  Layout layout;
  ProcessGroup world, data, tensor, pipeline;
  ProcessGroup expert;    ///< of data: neighbours that hold all of a layer's experts between them
  ProcessGroup replicas;  ///< of data: those with the same experts
};

/// Every rank of the world calls it. REQUIRES: the layout has as many ranks as the world;
/// layout.data is a multiple of layout.expert (asserted).
Mesh make_mesh(const ProcessGroup& world, const Layout& layout);

}  // namespace penstock::dist
