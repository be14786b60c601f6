// A router's gates in the terms of the runtimes that would compute them.
#pragma once

#include "penstock/models/model_config.h"

namespace penstock {

/// The rules that compute the gates of a token's k experts. With k = E both hold.
struct ExportGates {
  bool sum_to_one = false;     ///< softmax over the k kept logits
  bool probabilities = false;  ///< softmax over all E logits, the k largest kept as they are
};

/// The gates of an MoE in evaluation, from its selector and options.
/// Throws NotPortableError for a selector that is no top-k of a fixed k per token: ReLU, a capacity
/// that may refuse tokens, experts that choose, merging; and for a scorer that does not fold.
ExportGates export_gates(const ModelConfig& config);

}  // namespace penstock
