// Whether this machine can train in the precision of a recipe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/ops/machine/precision.h"
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

/// What a checkpoint says of its run's bf16 products on the CPU: in whose order they are added up.
/// Nothing where the precision is fp32.
void record_product_unit(ops::ProductPrecision precision, nlohmann::json& trainer);
/// What is to be said where a run goes on from such a record in another order, or "".
std::string product_unit_note(const nlohmann::json& trainer);

}  // namespace penstock
