#include "penstock/routers/written_out.h"

#include "penstock/routers/resolve.h"

namespace penstock {

RouterConfig written_out(const RouterConfig& config) {
  const ResolvedRouter router = resolve(config);
  RouterConfig out = config;
  if (router.dense()) return out;
  out.scorer = router.scorer;
  out.selector = router.selector;
  out.balancers = router.balancers;
  out.parts = router.options;
  return out;
}

}  // namespace penstock
