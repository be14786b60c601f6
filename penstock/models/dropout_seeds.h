// The dropout of a pass: one draw seeds all its sites, so that a repeated pass drops the same
// numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "penstock/routers/routing.h"

namespace penstock {

/// Seeds of a pass's dropouts, from one draw of its generator; none outside training.
class DropoutSeeds {
 public:
  /// Sites of dropout outside the layers. Sites in layers are numbered from kFirstLayer on.
  enum Site : std::int64_t { kEmbedding, kDistances, kOutput, kFirstLayer };

  DropoutSeeds(double p, const RoutingContext& context);
  /// Applies the site's dropout to x; returns x outside training. Each site drops its own numbers.
  at::Tensor apply(const at::Tensor& x, std::int64_t site) const;
  /// nullopt: no dropout.
  std::optional<std::int64_t> seed(std::int64_t site) const;

 private:
  double p_;
  bool active_ = false;
  std::uint64_t draw_ = 0;
};

}  // namespace penstock
