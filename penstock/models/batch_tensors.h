// A batch of token ids as the tensors a decoder takes.
#pragma once

#include "penstock/data/batches.h"
#include "penstock/models/decoder.h"

namespace penstock {

struct BatchTensors {
  DecoderInput input;
  at::Tensor targets;  ///< [B·T] i64
};

/// Copies of a batch's ids [B, T], targets [B·T] and, where it has them, starts [B, T], i64, on
/// that device.
BatchTensors to_tensors(const Batch& batch, const at::Device& device);

}  // namespace penstock
