// Whether this machine can train in the precision of a recipe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/ops/machine/precision.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// A run's settings, and their names for error messages.
struct ProductSettings {
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;
  bool emulate = false;
  std::string precision_key = "precision", emulate_key = "emulate_bf16";
};
/// Throws Error if the run asks for bf16, the processor has no bf16 and the run does not allow its
/// emulation. Sets for this process how bf16 products are computed.
void prepare_products(const ProductSettings& settings);
/// The same with train.precision and run.emulate_bf16. On a device other than the CPU it does
/// nothing.
void prepare_products(const Recipe& recipe);

/// Records in a checkpoint's `trainer` in which order the CPU's unit adds up bf16 products. Records
/// nothing if the precision is fp32.
void record_product_unit(ops::ProductPrecision precision, nlohmann::json& trainer);
/// The note for a run that resumes from a checkpoint with another order of sums; "" if the order is
/// the same.
std::string product_unit_note(const nlohmann::json& trainer);

}  // namespace penstock
