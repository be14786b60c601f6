// Counts the bytes that a rank holds and sends if it shares steps with other ranks, before any
// training. It allocates and sends nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/train/ranks/parameter_units.h"

namespace penstock {

/// How ranks that hold the same model share steps.
struct SharedSteps {
  std::size_t parts = 1;
  int ranks = 1, zero = 0;        ///< GradientSharing::zero
  bool one_machine = false;       ///< with zero > 0 the ranks then hold one copy of the weights
  int passes = 1;                 ///< passes of each part through the layers
  std::int64_t moment_bytes = 4;  ///< bytes of an element of one of AdamW's two moments
};

/// Each value is the largest over the ranks. All numbers but the moments are fp32.
struct SharingBytes {
  /// Weights. With zero = 3: the weights that the rank keeps, and those of two layers. If the ranks
  /// hold one copy: the weights that this rank updates.
  std::int64_t parameters = 0;
  /// The most bytes of gradients: the nodes of the tree. With zero >= 2: the rank's spans of the
  /// nodes, and the whole gradients of three layers and of parameters of no layer.
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;      ///< moments
  std::int64_t exchange = 0;       ///< buffers of received data and of its sum
  std::int64_t files = 0;          ///< files for exchanges between ranks of one machine
  std::int64_t packed = 0;         ///< buffers of messages between ranks of different machines
  std::int64_t of_no_layer = 0;    ///< weights of embeddings, head and routers
  std::int64_t to_make_whole = 0;  ///< weights that are not counted in `parameters`
  // Bytes sent in a step:
  std::int64_t sent_gradients = 0;  ///< gradients, to the ranks that add them up
  std::int64_t sent_sums = 0;       ///< zero = 0: the rank's sums, to all ranks
  std::int64_t sent_weights = 0;    ///< zero > 0: the rank's updated weights, to all ranks
};
SharingBytes sharing_bytes(const std::vector<ParameterSize>& parameters, const SharedSteps& steps);

}  // namespace penstock
