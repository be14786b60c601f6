// Sums of squares in pieces of a fixed size. So ranks that hold different pieces of a tensor
// compute a global norm with the same bits as one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace penstock::ops {

/// The number of elements in a piece.
constexpr std::int64_t kSquarePiece = 16384;

/// Σ x² in f64 of each piece of kSquarePiece consecutive elements of each tensor, in the order of
/// the tensors and pieces. A tensor's last piece may be shorter. global_norm() adds these sums in
/// this order and takes the square root.
std::vector<double> square_sums(const std::vector<at::Tensor>& tensors);

}  // namespace penstock::ops
