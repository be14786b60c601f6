// Marks the k largest entries of each row, for selectors that route_topk does not fit. It has no
// gradient and is not an operator of the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock::ops {

/// mask[r, c] is true if logits[r, c] is among the k largest of row r. The lowest column wins ties.
/// @param logits [R, C] f32|f64;  k in [0, C].  @return [R, C] bool, exactly k set per row, also if
/// entries are NaN (NaN counts as smallest).  Cost: one pass; O(R·C) for most rows, O(R·C·k) at
/// worst.
at::Tensor top_mask(const at::Tensor& logits, std::int64_t k);

/// The same mask by a stable sort, on any device; the oracle of the CPU's loop in tests.
at::Tensor top_mask_reference(const at::Tensor& logits, std::int64_t k);

}  // namespace penstock::ops
