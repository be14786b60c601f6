// The part of a model that a process holds, and the ranks that hold the rest. The default is the
// whole model in one process.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/dist/mesh.h"
#include "penstock/layers/rank_rows.h"
#include "penstock/models/model_config.h"
#include "penstock/ops/slice.h"

namespace penstock {

/// The part of a model that a rank holds, as numbers.
struct ModelPart {
  int tensor = 0, tensors = 1;  ///< the rank holds part `tensor` of each layer's heads and neurons
  int expert = 0, expert_ranks = 1;  ///< the rank holds part `expert` of each layer's experts
  bool whole_experts = false;        ///< each expert keeps all its neurons
  /// The layers that the rank holds; empty: all. The rank with the first layer also holds the
  /// embedding. The rank with the last layer also holds the head, if the head has its own matrix.
  std::vector<IndexRange> layers;

  bool holds(std::int64_t layer) const;
  /// The number of pieces of consecutive layers.
  int chunks() const { return layers.empty() ? 1 : static_cast<int>(layers.size()); }
};

/// The layers of each stage. Stages are as equal as possible: the first ones have one layer more.
/// @param chunks  pieces of a stage; consecutive pieces of a stage lie `stages` pieces apart
/// (interleaved)
std::vector<IndexRange> layers_of_stage(std::int64_t layers, int stage, int stages, int chunks = 1);

/// The part of the model that rank `rank` of a layout holds.
ModelPart part_of_rank(const ModelConfig& config, const dist::Layout& layout, int rank,
                       int chunks = 1);

/// A rank's part, and the ranks that its layers communicate with.
struct ModelPlace {
  ModelPart part;
  RankRows rows;  ///< the ranks that share each layer's heads and neurons
  dist::ProcessGroup expert;
  bool overlap = true;  ///< whether ranks compute while rows travel in the group `expert`
};
ModelPlace place_in(const ModelConfig& config, const dist::Mesh& mesh, int chunks = 1);

/// The divisor of `size` that is nearest to `wanted`; the smaller one if two are equally near.
std::int64_t nearest_divisor(std::int64_t size, std::int64_t wanted);

/// Checks that the layout can divide the model.
/// Throws Error if it cannot; the message names the key and the nearest value that fits.
/// REQUIRES: config is resolved.
void check_divides(const ModelConfig& config, const dist::Layout& layout);

}  // namespace penstock
