// Which numbers a pass drops: one draw for all sites of dropout, so that a pass made again drops
// the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "penstock/routers/routing.h"

namespace penstock {

/// Seeds of a pass's dropouts, from one draw of its generator; none outside training.
class DropoutSeeds {
 public:
  /// Sites of dropout outside the layers; the layers' have the numbers from kFirstLayer on.
  enum Site : std::int64_t { kEmbedding, kDistances, kOutput, kFirstLayer };

  DropoutSeeds(double p, const RoutingContext& context);
  /// x as it is, or with the dropout of that site. Sites have numbers of their own.
  at::Tensor apply(const at::Tensor& x, std::int64_t site) const;
  /// nullopt: no dropout.
  std::optional<std::int64_t> seed(std::int64_t site) const;

 private:
  double p_;
  bool active_ = false;
  std::uint64_t draw_ = 0;
};

}  // namespace penstock
