// The hash of dropout.h for loops that the compiler vectorises.
#pragma once

#include "penstock/ops/cpu/vector_math.h"
#include "penstock/ops/dropout.h"

namespace penstock::ops::cpu {

/// Whether dropout keeps an element.  key: of the element's row;  column: the element's column ·
/// kDropoutColumn.
PENSTOCK_INLINE bool dropout_stays(std::uint32_t key, std::uint32_t column,
                                   std::uint32_t threshold) {
  std::uint32_t x = key ^ column;
  x = (x ^ (x >> 16)) * kDropoutFirst;
  x = (x ^ (x >> 15)) * kDropoutSecond;
  x ^= x >> 16;
  return (x >> 8) >= threshold;
}

}  // namespace penstock::ops::cpu
