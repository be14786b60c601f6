// A matrix product cut into blocks that stay in cache. libxsmm computes each block as a small
// product. The left operand is read in place. Every cut depends on the shape alone. One task sums
// each element of c in order of depth, so results do not depend on the number of threads.
#pragma once

#include <cstdint>

namespace penstock::ops::xsmm {

/// Columns of b (and of c) of a task.
inline constexpr std::int64_t kColumns = 256;

/// c [rows, columns] (+)= a·b, row-major, b in panels of kColumns columns, each [depth, width].
struct BlockedShape {
  std::int64_t rows, columns, depth;
  std::int64_t a_stride, c_stride;
  bool accumulate = false;  ///< c += instead of c =
};

/// Runs the product on the threads of OpenMP.
/// REQUIRES: supported() (product.h), sizes > 0.  Cost: 2 · rows · columns · depth FLOPs, no
/// memory.
void blocked_product(const BlockedShape& shape, const float* a, const float* b, float* c);

}  // namespace penstock::ops::xsmm
