// Decides which rank writes which tensors of a checkpoint, and which parts of them the other ranks
// send to it. The result depends on the layout alone, so all ranks get the same result.
// share_exchange.h sends the tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/dist/mesh.h"
#include "penstock/models/model_config.h"
#include "penstock/ops/slice.h"
#include "penstock/train/ranks/parameter_units.h"

namespace penstock {

/// Numbers [begin, end) of a flattened slice, which `rank` provides.
struct HeldRange {
  int rank = 0;  ///< in the world
  std::int64_t begin = 0, end = 0;
};

/// A slice of a tensor in the checkpoint's files. Its ranges together cover the slice.
struct SharedSlice {
  Slice slice;
  std::vector<HeldRange> weights, moments;
};

/// A tensor in the checkpoint's files. Its slices together cover the tensor.
struct TensorShare {
  std::string name;
  std::vector<std::int64_t> shape;
  bool trained = false;  ///< whether it has moments, which its owner writes too
  int owner = 0;         ///< rank in the world that writes the tensor and holds some of it
  std::vector<SharedSlice> slices;

  /// How many numbers the owner writes, moments included.
  std::int64_t numbers() const;
};

struct ShareSettings {
  dist::Layout layout;
  int chunks = 1;  ///< chunks of a pipeline stage
  int zero = 0;    ///< GradientSharing::zero
  /// The parameters that a rank of the stage trains, in its optimizer's order; equal on all ranks.
  std::vector<ParameterSize> trained;
};

/// Lists every tensor of a stage's layers once, by name. The first stage's list includes the
/// balancers' state. Each tensor gets an owner among the ranks that hold some of it. Tensors that
/// the fewest ranks hold are assigned first, and among equals the largest. Each goes to the rank
/// with the fewest numbers so far. So no rank has more than an even share of the numbers that its
/// kind of ranks hold, plus one tensor. Cost: ranks of the stage · tensors that they hold.
/// REQUIRES: config is resolved; check_divides().
std::vector<TensorShare> checkpoint_shares(const ModelConfig& config, const ShareSettings& settings,
                                           int stage);

/// The weights or the moments of a share.
struct ShareItem {
  std::size_t share = 0;
  int kind = 0;  ///< 0: weights, 1 and 2: moments
};
/// Divides the list of all shares' items into turns. In a turn no rank sends or receives more than
/// `numbers` numbers plus one tensor.
std::vector<std::vector<ShareItem>> share_turns(const std::vector<TensorShare>& shares,
                                                std::int64_t numbers);

}  // namespace penstock
