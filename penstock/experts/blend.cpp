#include "penstock/experts/blend.h"

#include <torch/types.h>

namespace penstock {

Blend::Blend(const at::Tensor& weights, const dist::ProcessGroup& group)
    : group_(group), weights_(weights) {
  if (group.size() == 1) return;
  const std::int64_t ranks = group.size(), segments = weights.size(0);
  mine_.assign(static_cast<std::size_t>(ranks), segments);
  const at::Tensor all = group.all_gather(at::full({1}, segments, at::kLong));
  theirs_.assign(all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + ranks);
  const at::Tensor by_rank = weights.view({segments, ranks, weights.size(1) / ranks})
                                 .transpose(0, 1)
                                 .reshape({ranks * segments, weights.size(1) / ranks});
  weights_ = exchange_rows(by_rank, mine_, theirs_, group);
}

at::Tensor Blend::of(const at::Tensor& parameters) const {
  std::vector<std::int64_t> shape = parameters.sizes().vec();
  at::Tensor out = weights_.matmul(parameters.flatten(1));  // [ΣS, n]
  if (group_.size() > 1) {
    const std::int64_t segments = mine_.front();
    out = exchange_rows(out, theirs_, mine_, group_)
              .view({group_.size(), segments, out.size(1)})
              .sum(0);
  }
  shape[0] = out.size(0);
  return out.view(shape);
}

}  // namespace penstock
