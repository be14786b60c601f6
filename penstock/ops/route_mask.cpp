// Routes from masks: checks and implementations. The indices have no gradient. libtorch computes
// the gradient of the weights. So this function needs no registration in the dispatcher.
#include <ATen/ATen.h>

#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/route.h"

namespace penstock::ops {

Route route_mask(const at::Tensor& gates, const at::Tensor& mask) {
  PENSTOCK_CHECK(gates.dim() == 2 && gates.sizes() == mask.sizes(), "[route_mask] gates ",
                 gates.sizes(), " and mask ", mask.sizes(), " must both be [T, E]");
  PENSTOCK_CHECK(mask.scalar_type() == at::kBool, "[route_mask] the mask must be bool, not ",
                 mask.scalar_type());
  PENSTOCK_CHECK(gates.device() == mask.device(), "[route_mask] gates on ", gates.device(),
                 ", mask on ", mask.device());
  static const Implementations<Route(const at::Tensor&)> list(
      "route_mask", {{"cpu", cpu::declines_route_mask, cpu::route_mask},
                     {"reference", nullptr, reference::route_mask}});
  Route route = list.run(mask);
  // No position occurs twice, so the gradient's scatter is deterministic.
  route.weight = gates.flatten().gather(0, route.token * gates.size(1) + route.expert);  // [A]
  return route;
}

}  // namespace penstock::ops
