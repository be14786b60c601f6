#include "penstock/analysis/refusals.h"

#include "penstock/analysis/gating.h"
#include "penstock/analysis/router_gradient.h"
#include "penstock/base/error.h"

namespace penstock::analysis {

Refusals refusals(const ModelConfig& config) {
  PENSTOCK_CHECK(config.moe_layers() > 0,
                 "the model is dense: it has no router and no experts to analyse");
  const ResolvedRouter router = resolve(config.router);
  Refusals out;
  if (router.traits.no_logits)
    out.entropy = out.samples =
        concat("scorer '", router.scorer, "' gives no logits: there is no distribution to measure");
  else if (router.traits.merges)
    out.samples = concat("selector '", router.selector,
                         "' scores segments, so no token has a distribution of its own");
  if (router.traits.merges)
    out.load = concat("selector '", router.selector,
                      "' blends all experts for every segment: nothing is assigned");
  out.jacobian = declines_gating(router);
  out.gradient = declines_router_gradient(config);
  return out;
}

}  // namespace penstock::analysis
