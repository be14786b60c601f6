// The logits after every token of a pass, for code that looks at them while the pass is read.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "penstock/models/language_model.h"

namespace penstock {

/// Sees logits [n, V], f32 on the CPU, after the next n tokens of a sequence.
using LogitsTap = std::function<void(const at::Tensor& logits)>;

/// Shows the tap the logits after each of the head's input rows [T, d], some rows at a time, so
/// that the logits of a long prompt never exist together.
void show_logits(LanguageModel& model, const at::Tensor& hidden, const LogitsTap& tap);

}  // namespace penstock
