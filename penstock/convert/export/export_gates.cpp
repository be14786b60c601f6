#include "penstock/convert/export/export_gates.h"

#include "penstock/convert/export/not_portable.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/routers/registry.h"

namespace penstock {
namespace {

/// Why other programs do not choose experts as this selector does.
std::string objection_to_selector(const ResolvedRouter& router) {
  const std::string name = "selector '" + router.selector + "' ";
  if (router.traits.merges)
    return name + "blends the experts' weights, and other programs choose experts";
  if (router.traits.variable_active)
    return name +
           "activates as many experts as there are positive logits, with these as weights; "
           "other programs take a fixed number by softmax" +
           (router.traits.gates == GateForm::relu
                ? "; `penstock handoff` makes a model of that kind of it"
                : "");
  if (router.traits.ignores_logits) return name + "does not choose by the logits";
  if (!router.traits.takes_highest)
    return name + "does not give each token the experts of its highest logits";
  if (router.traits.drops)
    return name + "refuses a token the experts that are full, and other programs refuse none";
  return name + "as it is set weighs experts by no softmax";
}

/// The names of the tensors in a model's files that bias the choice.
std::string biases_of_choice(const ResolvedRouter& router) {
  std::string out;
  for (std::size_t i = 0; i < router.balancers.size(); ++i) {
    const std::string& name = router.balancers[i];
    if (balancer_registry().at(name).traits_under(router.options.at(name)).biases_choice)
      out += concat(out.empty() ? "" : ", ", "penstock.balancer_", i, " of balancer '", name, "'");
  }
  return out;
}

}  // namespace

ExportGates export_gates(const ModelConfig& config) {
  const ResolvedRouter router = resolve(config.router);
  if (router.traits.biases_choice)
    fail_not_portable("the choice of experts has a bias that their gates have not (",
                      biases_of_choice(router), "), and none of these architectures adds one");
  const GateForm form = router.traits.gates;
  if ((form != GateForm::softmax_over_kept && form != GateForm::softmax_over_all) ||
      !selector_of(config)->refuses_none())
    fail_not_portable(objection_to_selector(router));
  if (!router.traits.foldable)
    fail_not_portable("scorer '", router.scorer,
                      "' as it is set is not one matrix: its logits are "
                      "no linear function of the token, and other programs have no other routers");
  const bool after = form == GateForm::softmax_over_kept;
  const bool all = config.active_experts() == static_cast<double>(config.total_experts());
  return {.sum_to_one = after || all, .probabilities = !after || all};
}

}  // namespace penstock
