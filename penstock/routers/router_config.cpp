#include "penstock/routers/router_config.h"

#include "penstock/routers/methods.h"

namespace penstock {

bool RouterConfig::dense() const {
  if (!scorer.empty() && !selector.empty()) return false;
  return method_registry().contains(method) && method_registry().at(method).selector.empty();
}

}  // namespace penstock
