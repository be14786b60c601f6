#include "penstock/ops/cpu/routing/route_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "penstock/base/error.h"

namespace penstock::ops::cpu {

RouteBlocks::RouteBlocks(std::int64_t tokens, std::int64_t experts)
    : tokens_(tokens),
      experts_(experts),
      width_(std::max(kLanes, padded(experts))),
      blocks_((tokens + kTokens - 1) / kTokens),
      counts_(static_cast<std::size_t>(blocks_ * width_)),
      sums_(counts_.size()) {
  PENSTOCK_CHECK(tokens * experts <= std::numeric_limits<std::int32_t>::max(), "[route] ", tokens,
                 " tokens of ", experts,
                 " experts are more pairs than 32 bits count; use smaller "
                 "micro-batches");
}

at::Tensor RouteBlocks::offsets() {
  at::Tensor offsets = at::zeros({experts_ + 1}, at::kLong);
  auto* offset = offsets.data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < blocks_; ++b)
    for (std::int64_t e = 0; e < experts_; ++e) offset[e + 1] += counts(b)[e];
  for (std::int64_t e = 0; e < experts_; ++e) offset[e + 1] += offset[e];
  std::vector<std::int32_t> next(offset, offset + experts_);
  for (std::int64_t b = 0; b < blocks_; ++b)
    for (std::int64_t e = 0; e < experts_; ++e) {
      const std::int32_t count = counts(b)[e];
      counts(b)[e] = next[e];
      next[e] += count;
    }
  return offsets;
}

at::Tensor RouteBlocks::total(double scale) const {
  std::vector<double> total(static_cast<std::size_t>(experts_));
  for (std::int64_t b = 0; b < blocks_; ++b)
    for (std::int64_t e = 0; e < experts_; ++e) total[e] += sums_[b * width_ + e];
  at::Tensor out = at::empty({experts_}, at::kFloat);
  for (std::int64_t e = 0; e < experts_; ++e)
    out.data_ptr<float>()[e] = static_cast<float>(total[e] * scale);
  return out;
}

at::Tensor expert_of_assignments(const at::Tensor& offsets) {
  const auto* offset = offsets.data_ptr<std::int64_t>();
  const std::int64_t experts = offsets.size(0) - 1;
  at::Tensor out = at::empty({offset[experts]}, at::kLong);
  auto* expert = out.data_ptr<std::int64_t>();
  parallel_ranges(experts, 1 + 16384 * experts / (offset[experts] + 1),
                  [=](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t e = begin; e < end; ++e)
                      std::fill(expert + offset[e], expert + offset[e + 1], e);
                  });
  return out;
}

}  // namespace penstock::ops::cpu
