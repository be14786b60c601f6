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

/// A rank's part, as numbers.
struct ModelPart {
  int tensor = 0, tensors = 1;       ///< of each layer's heads and neurons: part `tensor`
  int expert = 0, expert_ranks = 1;  ///< of each layer's experts: part `expert`
  bool whole_experts = false;        ///< experts keep all their neurons
  /// Layers that it holds; empty: all. The embedding goes with the first layer, a head of its own
  /// with the last one.
  std::vector<IndexRange> layers;

  bool holds(std::int64_t layer) const;
  /// Pieces of consecutive layers.
  int chunks() const { return layers.empty() ? 1 : static_cast<int>(layers.size()); }
};

/// The layers of each stage, as equal as can be: the first ones have one more.
/// @param chunks  pieces of a stage, which lie `stages` pieces apart (interleaved)
std::vector<IndexRange> layers_of_stage(std::int64_t layers, int stage, int stages, int chunks = 1);

/// Of that rank of a layout.
ModelPart part_of_rank(const ModelConfig& config, const dist::Layout& layout, int rank,
                       int chunks = 1);

/// With the ranks that its layers talk to.
struct ModelPlace {
  ModelPart part;
  RankRows rows;  ///< of those that share each layer's heads and neurons
  dist::ProcessGroup expert;
  bool overlap = true;  ///< whether they compute while rows travel in that group
};
ModelPlace place_in(const ModelConfig& config, const dist::Mesh& mesh, int chunks = 1);

/// The divisor of `size` that is nearest to `wanted`, the smaller of two.
std::int64_t nearest_divisor(std::int64_t size, std::int64_t wanted);

/// Throws Error that names the key and the nearest value which fits, where a model cannot be
/// divided so. REQUIRES: config is resolved.
void check_divides(const ModelConfig& config, const dist::Layout& layout);

}  // namespace penstock
