// A batch of token ids as the tensors a model takes.
#pragma once

#include "penstock/data/corpus/batches.h"
#include "penstock/models/language_model.h"

namespace penstock {

struct BatchTensors {
  ModelInput input;
  at::Tensor targets;  ///< [B·T] i64
};

/// Copies of a batch's ids [B, T], targets [B·T] and, where it has them, starts [B, T], i64, on
/// that device.
BatchTensors to_tensors(const Batch& batch, const at::Device& device);

}  // namespace penstock
