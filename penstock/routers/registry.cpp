// The registries of parts, one of each in the process.
#include "penstock/routers/router.h"

namespace penstock {

Registry<PartEntry<Scorer>>& scorer_registry() {
  static Registry<PartEntry<Scorer>> registry("scorer");
  return registry;
}

Registry<PartEntry<Selector>>& selector_registry() {
  static Registry<PartEntry<Selector>> registry("selector");
  return registry;
}

Registry<PartEntry<Balancer>>& balancer_registry() {
  static Registry<PartEntry<Balancer>> registry("balancer");
  return registry;
}

}  // namespace penstock
