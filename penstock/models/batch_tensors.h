// Converts a batch of token ids to a model's input tensors.
#pragma once

#include "penstock/data/corpus/batches.h"
#include "penstock/models/language_model.h"

namespace penstock {

struct BatchTensors {
  ModelInput input;
  at::Tensor targets;  ///< [B·T] i64
};

/// Copies a batch's ids [B, T], targets [B·T] and, if present, starts [B, T] to the device, as i64.
BatchTensors to_tensors(const Batch& batch, const at::Device& device);

}  // namespace penstock
