// A batch of token ids as the tensors a decoder takes.
#pragma once

#include "penstock/data/batches.h"
#include "penstock/models/decoder.h"

namespace penstock {

struct BatchTensors {
  DecoderInput input;
  at::Tensor targets;  ///< [B·T] i64
};

BatchTensors to_tensors(const Batch& batch, const at::Device& device);

}  // namespace penstock
