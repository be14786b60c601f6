// The trained parameters in the units that ranks exchange together, and which rank keeps which
// elements of a unit. It sends nothing (unit_exchange.h).
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

/// Parameters whose gradients are complete at about the same time of a backward pass: a layer's, or
/// what no one layer has (embeddings, head, routers, which layers may share).
struct ParameterUnit {
  std::int64_t layer = -1;               ///< -1: of no one layer
  bool experts = false;                  ///< exchanged by `replicas`, over rounds
  std::vector<std::size_t> parameters;   ///< indices into all, ascending
  std::vector<std::vector<Span>> spans;  ///< by rank; consecutive, together all

  std::int64_t elements(int rank) const;
};

struct ParameterSize {
  std::string name;
  std::int64_t elements = 0;
};
std::vector<ParameterSize> sizes_of(const std::vector<Updated>& parameters);

/// All units, in the order in which a backward pass completes them: from the last layer to the
/// first, and then the rest. Each is cut for so many ranks as exchange it, at multiples of
/// ops::kSquarePiece of a parameter, so that sums of squares are of the same pieces.
/// @param ranks  that exchange what is no expert's;  @param replicas  that exchange experts'
std::vector<ParameterUnit> parameter_units(const std::vector<ParameterSize>& parameters,
                                           const ParameterPredicate& of_experts, int ranks,
                                           int replicas);

}  // namespace penstock
