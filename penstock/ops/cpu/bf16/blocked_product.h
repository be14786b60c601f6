// A bf16 product on all threads, cut into blocks that stay in cache.
#pragma once

#include "penstock/ops/cpu/bf16/pack.h"

namespace penstock::ops::bf16 {

/// c [rows, columns] (+)= a·b, c with a row stride.  Cost: 2 · rows · columns · depth FLOPs.
struct BlockedProduct {
  std::int64_t rows, columns, depth, c_row;
  bool accumulate = false;
};
void blocked_product(const BlockedProduct& shape, const PairRows& a, const Panels& b, float* c);
/// The left operand is the transpose of the matrix in the panels `a`.
void blocked_product(const BlockedProduct& shape, const Panels& a, const Panels& b, float* c);

}  // namespace penstock::ops::bf16
