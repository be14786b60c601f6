// What a training computes again in its backward pass, as `penstock info --json` says it.
#pragma once

#include <nlohmann/json.hpp>

#include "penstock/train/recompute_choice.h"

namespace penstock {

/// {"layers": ["layer", "experts", "nothing"], "flops": 0.14}: a word for each layer, and the FLOPs
/// computed again over the useful ones; null where nothing is computed again.
nlohmann::ordered_json recomputed_json(const RecomputeChoice& choice);

}  // namespace penstock
