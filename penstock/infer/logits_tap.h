// The logits tap: an observer of the logits after each token that is read.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "penstock/models/language_model.h"

namespace penstock {

/// Receives the logits [n, V], f32 on the CPU, after the next n tokens of a sequence.
using LogitsTap = std::function<void(const at::Tensor& logits)>;

/// Computes the logits of the head's input rows [T, d] and passes them to the tap, some rows at a
/// time, so that the logits of a long prompt are never in memory together.
void show_logits(LanguageModel& model, const at::Tensor& hidden, const LogitsTap& tap);

}  // namespace penstock
