#include "penstock/models/dropout_seeds.h"

#include <ATen/CPUGeneratorImpl.h>

#include "penstock/base/random.h"
#include "penstock/models/pass_draws.h"
#include "penstock/ops/ops.h"

namespace penstock {

DropoutSeeds::DropoutSeeds(double p, const RoutingContext& context)
    : p_(p), active_(context.training) {
  if (!active_) return;
  draw_ = next_bits(context.generator ? *context.generator : at::detail::getDefaultCPUGenerator());
}

std::optional<std::int64_t> DropoutSeeds::seed(std::int64_t site) const {
  if (!active_) return std::nullopt;
  return static_cast<std::int64_t>(random_bits(draw_, 0, static_cast<std::uint64_t>(site)) >> 1);
}

at::Tensor DropoutSeeds::apply(const at::Tensor& x, std::int64_t site) const {
  return active_ && p_ > 0 ? ops::dropout(x, p_, *seed(site)) : x;
}

}  // namespace penstock
