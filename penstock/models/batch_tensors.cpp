#include "penstock/models/batch_tensors.h"

#include <torch/types.h>

namespace penstock {

BatchTensors to_tensors(const Batch& batch, const at::Device& device) {
  // A copy, because the batch may be destroyed before the graph.
  const auto tensor = [&](const std::vector<std::int64_t>& values, at::IntArrayRef shape) {
    return torch::tensor(at::ArrayRef<std::int64_t>(values), torch::kInt64).view(shape).to(device);
  };
  BatchTensors out;
  out.input.tokens = tensor(batch.inputs, {batch.sequences, batch.length});
  if (!batch.starts.empty())
    out.input.starts = tensor(batch.starts, {batch.sequences, batch.length});
  out.targets = tensor(batch.targets, {batch.sequences * batch.length});
  return out;
}

}  // namespace penstock
