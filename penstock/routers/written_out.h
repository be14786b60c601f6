// A router's config without defaults, for files that must keep their meaning in later versions.
#pragma once

#include "penstock/routers/router_config.h"

namespace penstock {

/// Returns the config with scorer, selector, balancers and every option of the parts in use named,
/// as resolve() finds them. A later version's other defaults or other method table then change
/// nothing. The result resolves to the same router. A dense config stays as it is. Throws as
/// resolve() does.
RouterConfig written_out(const RouterConfig& config);

}  // namespace penstock
