// Describes a router's gates by the rules that other programs can compute.
#pragma once

#include "penstock/models/model_config.h"

namespace penstock {

/// The rules that compute the gates of a token's k experts. With k = E both hold.
struct ExportGates {
  bool sum_to_one = false;     ///< softmax over the k kept logits
  bool probabilities = false;  ///< softmax over all E logits; the k largest are kept unchanged
};

/// The gates of an MoE in evaluation, from its selector and options. Throws NotPortableError for a
/// selector that is not a top-k with a fixed k per token (ReLU, a capacity that may drop tokens,
/// expert choice, merging), and for a scorer that does not fold into one matrix.
ExportGates export_gates(const ModelConfig& config);

}  // namespace penstock
