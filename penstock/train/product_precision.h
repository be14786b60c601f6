// Whether this machine can train in the precision of a recipe.
#pragma once

#include <string>

#include "penstock/ops/precision.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// A run's settings, and what its user calls them.
struct ProductSettings {
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;
  bool emulate = false;
  std::string precision_key = "precision", emulate_key = "emulate_bf16";
};
/// Throws Error where bf16 is asked for, the processor has none and the run does not allow to
/// emulate it. Sets for this process how bf16 products are computed.
void prepare_products(const ProductSettings& settings);
/// train.precision and run.emulate_bf16; on another device there is nothing to prepare.
void prepare_products(const Recipe& recipe);

}  // namespace penstock
