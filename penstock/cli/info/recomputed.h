// The JSON in `penstock info --json` for the layers that a backward pass computes again.
#pragma once

#include <nlohmann/json.hpp>

#include "penstock/train/recompute_choice.h"

namespace penstock {

/// {"layers": ["layer", "experts", "nothing"], "flops": 0.14}: a word for each layer, and the ratio
/// of recomputed FLOPs to useful FLOPs; null if nothing is recomputed.
nlohmann::ordered_json recomputed_json(const RecomputeChoice& choice);

}  // namespace penstock
