// Products of small row-major tiles: libxsmm's where it compiles for this processor, else a loop.
#pragma once

#include <optional>

#include "penstock/ops/cpu/xsmm/product.h"

namespace penstock::ops::cpu {

/// c (+)= a·b of one shape.  Construction may compile; calls are thread-safe and do not throw.
class TileProduct {
 public:
  explicit TileProduct(const xsmm::ProductShape& shape);
  void operator()(const float* a, const float* b, float* c) const {
    if (compiled_)
      (*compiled_)(a, b, c);
    else
      loop(a, b, c);
  }

 private:
  void loop(const float* a, const float* b, float* c) const;

  xsmm::ProductShape shape_;
  std::optional<xsmm::Product> compiled_;
};

}  // namespace penstock::ops::cpu
