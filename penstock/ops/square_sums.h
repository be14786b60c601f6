// Sums of squares in pieces of a fixed size. Ranks that hold different pieces of a tensor can so
// compute a global norm with the bits of one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace penstock::ops {

/// The number of elements in a piece.
constexpr std::int64_t kSquarePiece = 16384;

/// Σ x² in f64 of each kSquarePiece consecutive elements of each tensor, of fewer at a tensor's
/// end, in their order. global_norm() is the root of their sum in this order.
std::vector<double> square_sums(const std::vector<at::Tensor>& tensors);

}  // namespace penstock::ops
