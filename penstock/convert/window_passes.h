// Runs a model over the windows of a text, for conversions that observe the inputs of its layers.
// eval/passes.h scores tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "penstock/convert/conversion_progress.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// Calls `pass` with the windows [n, L] in their order, `rows` at a time (the last call gets the
/// rest). The model is in evaluation mode and no gradients are recorded.
/// @param what  the stage; `progress` gets it and the done share before each pass
void run_over_windows(LanguageModel& model, const at::Tensor& windows, std::int64_t rows,
                      const std::function<void(const at::Tensor& tokens)>& pass,
                      std::string_view what = {}, const ConversionProgress& progress = {});

}  // namespace penstock
