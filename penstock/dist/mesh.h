// How the processes of a run are divided between the kinds of parallelism: the ranks that differ in
// one axis alone are a group. What is divided along an axis, and when, is not decided here.
#pragma once

#include "penstock/dist/group.h"

namespace penstock::dist {

/// Ranks along each axis, and how many hold a layer's experts between them: of those along `data`,
/// each with its part of an expert's neurons, or, with whole experts, of all that hold a layer.
struct Layout {
  int data = 1, tensor = 1, pipeline = 1;
  int expert = 1;              ///< divides data, or with whole_experts data × tensor
  bool sequence = false;       ///< the ranks of `tensor` divide the rows between products too
  bool whole_experts = false;  ///< the ranks of `tensor` divide tokens of experts, not neurons

  int ranks() const { return data * tensor * pipeline; }
  /// The number of ranks that hold the same experts.
  int expert_copies() const { return data * (whole_experts ? tensor : 1) / expert; }
  /// How far apart neighbours lie that hold experts between them.
  int expert_stride() const { return whole_experts ? 1 : tensor; }
  /// Whether experts are divided over ranks in another way than the rest of a layer.
  bool divides_experts() const { return expert > 1 || (whole_experts && tensor > 1); }
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

/// The index of the part of each layer's experts that a rank holds.
int expert_part(const Layout& layout, const Coordinates& place);
/// The first rank that holds the same experts, of those that the layout counts along `expert`.
Coordinates first_with_experts(const Layout& layout, const Coordinates& place);

/// A rank's color for each group. Ranks with the same color form one, in the order of the world.
struct GroupColors {
  int data = 0, tensor = 0, pipeline = 0, expert = 0, replicas = 0;
};
/// REQUIRES: rank < layout.ranks(); layout.expert divides what it says.
GroupColors colors_of(const Layout& layout, int rank);

/// The groups of a rank. By default each is the process alone.
struct Mesh {
  Layout layout;
  ProcessGroup world, data, tensor, pipeline;
  ProcessGroup expert;    ///< neighbours that hold all of a layer's experts between them
  ProcessGroup replicas;  ///< those with the same experts
};

/// Every rank of the world calls it. REQUIRES: the layout has as many ranks as the world;
/// layout.expert divides what it says (asserted).
Mesh make_mesh(const ProcessGroup& world, const Layout& layout);

}  // namespace penstock::dist
