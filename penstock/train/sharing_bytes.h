// What ranks that share a step send each other, counted before anything is trained.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

/// Bytes that the busiest rank sends in a step.
struct SumTraffic {
  std::int64_t nodes = 0;  ///< what its parts came to, to the ranks that add up
  std::int64_t sums = 0;   ///< the sums of its spans, or the weights that it updated, to all
};
/// @param zero  GradientSharing::zero
SumTraffic sum_traffic(std::size_t parts, int ranks, int zero, std::int64_t gradient_bytes);

}  // namespace penstock
