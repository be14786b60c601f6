#include "penstock/models/routing_choice.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/models/model_config.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/resolve.h"

namespace penstock {

std::string why_no_k(const ModelConfig& config) {
  if (config.moe_layers() == 0) return "the model is dense, it has no experts to choose from";
  const ResolvedRouter router = resolve(config.router);
  const SelectorTraits& traits = selector_registry().at(router.selector).traits;
  if (traits.takes_highest) return "";
  const std::string selector = "selector '" + router.selector + "' ";
  if (traits.merges) return selector + "blends the weights of all experts";
  if (traits.variable_active)
    return selector + "takes the experts that the logits switch on, however many they are";
  if (traits.ignores_logits) return selector + "does not choose by logits";
  return selector + "does not let a token ask for the experts of its k highest logits";
}

bool takes_k(const ModelConfig& config, std::int64_t k) {
  return why_no_k(config).empty() && k >= 1 && k <= most_k(config);
}

std::int64_t most_k(const ModelConfig& config) {
  const std::int64_t most = config.traits().most_k, all = config.total_experts();
  return most > 0 ? std::min(most, all) : all;
}

std::string why_no_shift(const ModelConfig& config) {
  if (config.moe_layers() == 0) return "a dense model has no experts to switch on";
  const ResolvedRouter router = resolve(config.router);
  if (router.traits.gates == GateForm::relu) return "";
  return "selector '" + router.selector +
         "' does not switch experts on by the sign of their logits alone";
}

void check_choice(const ModelConfig& config, const RoutingChoice& choice) {
  if (choice.k != 0) {
    const std::string reason = why_no_k(config);
    PENSTOCK_CHECK(reason.empty(), "experts_per_token cannot be set: ", reason);
    PENSTOCK_CHECK(takes_k(config, choice.k), "experts_per_token = ", choice.k,
                   " is not from 1 to ", most_k(config),
                   ", the most experts that a token may ask for");
  }
  if (choice.logit_shift != 0) {
    const std::string reason = why_no_shift(config);
    PENSTOCK_CHECK(reason.empty(), "logit_shift cannot be set: ", reason);
  }
}

RoutingContext context_of(const RoutingChoice& choice) {
  return {.k = choice.k, .logit_shift = choice.logit_shift};
}

bool scores_tokens(const ModelConfig& config) {
  return config.moe_layers() > 0 &&
         !scorer_registry().at(resolve(config.router).scorer).traits.no_logits;
}

}  // namespace penstock
