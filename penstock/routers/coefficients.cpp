#include "penstock/routers/coefficients.h"

#include "penstock/base/joined.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/resolve.h"
#include "penstock/routers/written_out.h"

namespace penstock {
namespace {

template <class Part>
void add_coefficients(const Registry<PartEntry<Part>>& registry, const std::string& part,
                      std::vector<std::string>& out) {
  if (!registry.contains(part)) return;
  for (const FieldDescription& field : registry.at(part).fields)
    if (field.coefficient) out.push_back(field.path);
}

}  // namespace

bool acts_on_logits(const std::string& part) {
  return balancer_registry().contains(part) && balancer_registry().at(part).traits.needs_logits;
}

std::vector<std::string> coefficients(const std::string& part) {
  std::vector<std::string> out;
  add_coefficients(scorer_registry(), part, out);
  add_coefficients(selector_registry(), part, out);
  add_coefficients(balancer_registry(), part, out);
  return out;
}

std::vector<std::string> coefficient_keys(const RouterConfig& router) {
  std::vector<std::string> out;
  for (const auto& [part, options] : resolve(router).options)
    for (const std::string& option : coefficients(part))
      out.push_back(concat("model.router.", part, ".", option));
  return out;
}

RouterConfig with_coefficients(const RouterConfig& router, const RouterConfig& asked) {
  RouterConfig out = written_out(router);
  for (const auto& [part, options] : resolve(asked).options) {
    if (!out.parts.contains(part)) continue;
    for (const std::string& option : coefficients(part))
      out.parts[part].set(option, *options.find(option));
  }
  return out;
}

std::string remedy_for_loss(const std::string& part) {
  std::string out = joined(coefficients(part), "; or ", [&](const std::string& option) {
    const std::string key = concat("model.router.", part, ".", option);
    return concat("train with a lower ", key, " (", key, " = 0 leaves the loss out)");
  });
  if (out.empty()) out = concat("look at its options (`penstock routers ", part, "`)");
  return acts_on_logits(part) ? out + ", or start from smaller logits" : out;
}

}  // namespace penstock
