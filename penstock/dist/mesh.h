// How a run's processes are arranged over the kinds of parallelism: ranks that differ in only one
// axis form a group. This file does not decide what is divided along an axis, or when.
#pragma once

#include "penstock/dist/group.h"

namespace penstock::dist {

/// The number of ranks along each axis, and the number of ranks (`expert`) that a layer's experts
/// are divided between. These are ranks along `data`, each with its tensor shard of the experts'
/// neurons. With whole_experts they are among all data × tensor ranks that hold a layer.
struct Layout {
  int data = 1, tensor = 1, pipeline = 1;
  int expert = 1;              ///< divides data, or with whole_experts data × tensor
  bool sequence = false;       ///< ranks along `tensor` also divide the rows between the GEMMs
  bool whole_experts = false;  ///< ranks along `tensor` divide experts' tokens, not neurons

  int ranks() const { return data * tensor * pipeline; }
  /// The number of ranks that hold the same experts.
  int expert_copies() const { return data * (whole_experts ? tensor : 1) / expert; }
  /// The difference in rank between neighbours that share a layer's experts.
  int expert_stride() const { return whole_experts ? 1 : tensor; }
  /// Whether experts are divided over ranks in another way than the rest of a layer.
  bool divides_experts() const { return expert > 1 || (whole_experts && tensor > 1); }
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// A rank's coordinates: rank = (pipeline · layout.data + data) · layout.tensor + tensor. Ranks
/// along `tensor` communicate most, so they are neighbours, on one machine if it has enough ranks.
struct Coordinates {
  int data = 0, tensor = 0, pipeline = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};
/// REQUIRES: rank < layout.ranks().
Coordinates coordinates_of(const Layout& layout, int rank);
int rank_at(const Layout& layout, const Coordinates& place);

/// The index of the part of each layer's experts that a rank holds.
int expert_part(const Layout& layout, const Coordinates& place);
/// The first rank with the same experts.
Coordinates first_with_experts(const Layout& layout, const Coordinates& place);

/// A rank's color for each group. Ranks with the same color form a group, in the world's order.
struct GroupColors {
  int data = 0, tensor = 0, pipeline = 0, expert = 0, replicas = 0;
};
/// REQUIRES: rank < layout.ranks(); layout.expert divides the number of ranks that Layout names.
GroupColors colors_of(const Layout& layout, int rank);

/// The groups of a rank. By default each is the process alone.
struct Mesh {
  Layout layout;
  ProcessGroup world, data, tensor, pipeline;
  ProcessGroup expert;    ///< neighbours that together hold all of a layer's experts
  ProcessGroup replicas;  ///< ranks with the same experts
};

/// Every rank of the world calls it. REQUIRES: the layout has as many ranks as the world;
/// layout.expert divides the number of ranks that Layout names (asserted).
Mesh make_mesh(const ProcessGroup& world, const Layout& layout);

}  // namespace penstock::dist
