// Whether this machine can train in the precision of a recipe.
#pragma once

#include "penstock/train/recipe.h"

namespace penstock {

/// Throws Error where train.precision asks for what the processor has not and run.emulate_bf16 does
/// not allow to emulate. Sets for this process how bf16 products are computed.
void prepare_products(const Recipe& recipe);

}  // namespace penstock
