// The loop of a conversion that runs a model over a text to see what its layers are given. Scores
// of tokens are eval/passes.h's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "penstock/convert/conversion_progress.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// Gives `pass` the windows [n, L] in their order, `rows` of them at a time (the last time those
/// that are left), while the model is in evaluation mode and no gradients are recorded.
/// @param what  is being done: told to `progress` before each pass with the share that is done
void run_over_windows(LanguageModel& model, const at::Tensor& windows, std::int64_t rows,
                      const std::function<void(const at::Tensor& tokens)>& pass,
                      std::string_view what = {}, const ConversionProgress& progress = {});

}  // namespace penstock
