// What a rank that shares steps with others holds and sends, counted before anything is trained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/models/model_config.h"
#include "penstock/train/ranks/parameter_units.h"

namespace penstock {

/// How the steps are shared: by ranks that hold the same model.
struct SharedSteps {
  std::size_t parts = 1;
  int ranks = 1, zero = 0;        ///< GradientSharing::zero
  int passes = 1;                 ///< of each part through the layers
  std::int64_t moment_bytes = 4;  ///< of each of AdamW's two, per number
};

/// In fp32 but for the moments, of the rank that has most of each.
struct SharingBytes {
  /// Weights; with zero = 3 those that it keeps, and two layers.
  std::int64_t parameters = 0;
  /// Gradients at the most: the nodes of the tree; with zero >= 2 its spans of them, and what is on
  /// its way of three layers and of what no layer has.
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;      ///< moments
  std::int64_t exchange = 0;       ///< what arrives at a time and is added up
  std::int64_t files = 0;          ///< by which ranks of one machine exchange
  std::int64_t packed = 0;         ///< messages at a time, by which those of several do
  std::int64_t of_no_layer = 0;    ///< weights of embeddings, head and routers
  std::int64_t to_make_whole = 0;  ///< weights that are not counted in `parameters`
  // Sent in a step:
  std::int64_t sent_gradients = 0;  ///< to the ranks that add up
  std::int64_t sent_sums = 0;       ///< without zero: what it added up, to all
  std::int64_t sent_weights = 0;    ///< with zero: what it updated, to all
};
SharingBytes sharing_bytes(const std::vector<ParameterSize>& parameters, const SharedSteps& steps);

/// The trained parameters of a model. REQUIRES: config is resolved.
std::vector<ParameterSize> parameter_sizes(const ModelConfig& config);

}  // namespace penstock
