// A router's config without defaults, for files that must keep their meaning in later versions.
#pragma once

#include "penstock/routers/router.h"

namespace penstock {

/// The config with scorer, selector, balancers and every option of the parts in use named, as
/// resolve() finds them: another default, or another method table, of a later version then changes
/// nothing. A dense config stays as it is. Resolves to the same router. Throws as resolve() does.
RouterConfig written_out(const RouterConfig& config);

}  // namespace penstock
