#include "penstock/routers/as_trained.h"

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/resolve.h"
#include "penstock/routers/written_out.h"

namespace penstock {

RouterConfig as_trained(const RouterConfig& config) {
  PENSTOCK_CHECK(!config.dense() && resolve(config).traits.keeps_thresholds, "method '",
                 config.method, "' keeps no thresholds: it is evaluated as it was trained");
  RouterConfig out = written_out(config);
  for (const std::string& balancer : *out.balancers)
    if (balancer_registry().at(balancer).traits.keeps_thresholds)
      out.parts[balancer].set("evaluation", "batch");
  return out;
}

}  // namespace penstock
