// Divides the trained parameters into units. Ranks exchange a unit at a time, and each rank keeps
// its own elements of a unit. It sends nothing (unit_exchange.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/optim/adamw.h"
#include "penstock/train/ranks/gradient_sharing.h"

namespace penstock {

/// Elements [begin, end) of a unit's parameter, flattened.
struct Span {
  std::size_t parameter = 0;  ///< index into ParameterUnit::parameters
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Parameters whose gradients are complete at about the same time in a backward pass. They are
/// those of one layer, or the parameters that belong to no single layer (embeddings, head, and
/// routers, which layers may share).
struct ParameterUnit {
  std::int64_t layer = -1;               ///< -1: no single layer
  bool experts = false;                  ///< exchanged by `replicas`, over rounds
  std::vector<std::size_t> parameters;   ///< indices into all parameters, ascending
  std::vector<std::vector<Span>> spans;  ///< by rank; consecutive, together the whole unit

  std::int64_t elements(int rank) const;
};

struct ParameterSize {
  std::string name;
  std::int64_t elements = 0;
};
std::vector<ParameterSize> sizes_of(const std::vector<Updated>& parameters);

/// All units, in the order in which a backward pass completes them: from the last layer to the
/// first, then the unit of no layer. Each unit is cut into spans for the ranks that exchange it.
/// The cuts are at multiples of ops::kSquarePiece elements of a parameter, so that sums of squares
/// have the same pieces for any number of ranks.
/// @param ranks     number of ranks that exchange parameters other than experts'
/// @param replicas  number of ranks that exchange experts' parameters
std::vector<ParameterUnit> parameter_units(const std::vector<ParameterSize>& parameters,
                                           const ParameterPredicate& of_experts, int ranks,
                                           int replicas);

}  // namespace penstock
