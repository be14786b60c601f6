// Which rank writes which tensors of a checkpoint, and what the others send it for them: from the
// layout alone, so that all ranks know it. Nothing is sent here (share_exchange.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/dist/mesh.h"
#include "penstock/models/model_config.h"
#include "penstock/ops/slice.h"
#include "penstock/train/ranks/parameter_units.h"

namespace penstock {

/// Numbers [begin, end) of a slice, flattened, as a rank gives them.
struct HeldRange {
  int rank = 0;  ///< of the world
  std::int64_t begin = 0, end = 0;
};

/// A slice of a tensor of files; together the ranges are all of it.
struct SharedSlice {
  Slice slice;
  std::vector<HeldRange> weights, moments;
};

/// A tensor of files; together the slices are all of it.
struct TensorShare {
  std::string name;
  std::vector<std::int64_t> shape;
  bool trained = false;  ///< it has moments, which its owner writes too
  int owner = 0;         ///< of the world; it holds some of the tensor
  std::vector<SharedSlice> slices;

  /// Numbers to write.
  std::int64_t numbers() const;
};

struct ShareSettings {
  dist::Layout layout;
  int chunks = 1;  ///< of a stage
  int zero = 0;    ///< GradientSharing::zero
  /// The parameters that a rank of the stage trains, in its optimizer's order; equal on all ranks.
  std::vector<ParameterSize> trained;
};

/// Every tensor of a stage's layers once, by name; balancers' state goes with the first stage. A
/// tensor that fewer ranks hold is given away first, and among equals a larger one, each to the
/// rank with the least so far: so no rank has more than an even share of what its kind of ranks
/// hold and a tensor. Cost: ranks of the stage · tensors that they hold.
/// REQUIRES: config is resolved; check_divides().
std::vector<TensorShare> checkpoint_shares(const ModelConfig& config, const ShareSettings& settings,
                                           int stage);

/// The shares in turns, each a part of the list of (share, kind): kind 0 is the weights, 1 and 2
/// the moments. In a turn no rank sends or receives more than `numbers` and one tensor.
struct ShareItem {
  std::size_t share = 0;
  int kind = 0;
};
std::vector<std::vector<ShareItem>> share_turns(const std::vector<TensorShare>& shares,
                                                std::int64_t numbers);

}  // namespace penstock
