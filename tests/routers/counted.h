// A step's token counts per expert, set by hand, as balancers receive them.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/routers/step_statistics.h"
#include "tests/routers/parts.h"

namespace penstock::testing {

inline constexpr RouterShape kTwoLayers{.d_model = 3, .experts = 8, .k = 2, .layers = 2};

/// Statistics of a step with 100 tokens a layer. @param counts  each layer's tokens per expert
inline StepStatistics counted(const std::vector<std::vector<std::int64_t>>& counts) {
  StepCounts out;
  for (std::size_t layer = 0; layer < counts.size(); ++layer)
    out.add(static_cast<std::int64_t>(layer), counts[layer], 100);
  return out.take();
}

/// Token counts of 8 experts: `each` for the first seven, `last` for the last.
inline std::vector<std::int64_t> loads(std::int64_t each, std::int64_t last) {
  std::vector<std::int64_t> out(8, each);
  out.back() = last;
  return out;
}

inline at::Tensor buffer(const std::shared_ptr<Balancer>& part, const char* name) {
  return part->named_buffers()[name];
}

}  // namespace penstock::testing
