#include "penstock/routers/registry.h"

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

bool known_part(const std::string& name) {
  return scorer_registry().contains(name) || selector_registry().contains(name) ||
         balancer_registry().contains(name);
}

}  // namespace penstock
