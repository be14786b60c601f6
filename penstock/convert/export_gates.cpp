#include "penstock/convert/export_gates.h"

#include "penstock/convert/export_target.h"

namespace penstock {
namespace {

/// An option of a part, which resolve() has filled in.
const ConfigNode& option(const ResolvedRouter& router, const std::string& part,
                         const std::string& name) {
  const ConfigNode* const node = router.options.at(part).find(name);
  PENSTOCK_ASSERT(node, part, " has no option ", name);
  return *node;
}

bool softmax_after(const ResolvedRouter& router) {
  return std::get<std::string>(option(router, router.selector, "softmax").value()) == "after";
}

/// Why other programs do not choose as this selector does.
std::string objection_to_selector(const ResolvedRouter& router) {
  const std::string name = "selector '" + router.selector + "' ";
  if (router.traits.merges)
    return name + "blends the experts' weights, and other programs choose experts";
  if (router.traits.variable_active)
    return name +
           "activates as many experts as there are positive logits, with these as weights; "
           "other programs take a fixed number by softmax";
  if (router.traits.ignores_logits) return name + "does not choose by the logits";
  if (!router.traits.takes_highest)
    return name + "does not give each token the experts of its highest logits";
  return name + "refuses a token the experts that are full, and other programs refuse none";
}

}  // namespace

ExportGates export_gates(const ModelConfig& config) {
  const ResolvedRouter router = resolve(config.router);
  const double experts = static_cast<double>(config.total_experts()), k = config.active_experts();
  bool after = false;
  if (router.selector == "topk") {
    after = softmax_after(router) ||
            std::get<bool>(option(router, router.selector, "renormalise").value());
  } else if (router.selector == "topk-capacity") {
    const double room = std::get<double>(option(router, router.selector, "eval_capacity").value());
    // An expert has ceil(room·k·T/E) places and is asked by T tokens at most.
    if (room * k < experts) fail_not_portable(objection_to_selector(router));
    after = softmax_after(router);
  } else {
    fail_not_portable(objection_to_selector(router));
  }
  if (!router.traits.foldable)
    fail_not_portable("scorer '", router.scorer,
                      "' as it is set is not one matrix: its logits are "
                      "no linear function of the token, and other programs have no other routers");
  const bool all = k == experts;
  return {.sum_to_one = after || all, .probabilities = !after || all};
}

}  // namespace penstock
