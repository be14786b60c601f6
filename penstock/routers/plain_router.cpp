#include "penstock/routers/plain_router.h"

#include "penstock/routers/registry.h"

namespace penstock {
namespace {

constexpr const char* kMatrix = "linear";
constexpr const char* kTopK = "topk";
constexpr const char* kBalance = "load-balance";
constexpr const char* kJitter = "jitter-linear";

}  // namespace

RouterConfig no_router() { return {.method = "dense"}; }

RouterConfig plain_router(const PlainRouter& router) {
  RouterConfig out{.method = kTopK, .k = router.k};
  ConfigNode& gates = out.parts[kTopK];
  gates.set("softmax", std::string(router.softmax_over_kept ? "after" : "before"));
  gates.set("renormalise", router.renormalise);
  if (router.balance)
    out.parts[kBalance].set("coefficient", *router.balance);
  else
    out.balancers.emplace();
  if (router.jitter > 0) {
    out.scorer = kJitter;
    out.parts[kJitter].set("epsilon", router.jitter);
  }
  return out;
}

double balance_coefficient(const RouterConfig& router) {
  const auto options = resolve(router).options;
  const auto balance = options.find(kBalance);
  if (balance == options.end()) return 0;
  return std::get<double>(balance->second.find("coefficient")->value());
}

RouterConfig folded_router(const RouterConfig& router, bool bias) {
  const ResolvedRouter parts = resolve(router);
  RouterConfig out = router;
  out.scorer = kMatrix;
  out.selector = parts.selector;
  out.balancers.emplace();
  ConfigNode matrix;
  matrix.set("bias", bias);
  matrix.set("frozen", true);
  out.parts = {{kMatrix, matrix}, {parts.selector, parts.options.at(parts.selector)}};
  for (const std::string& balancer : parts.balancers)
    if (outlives_folding(parts, balancer)) {
      out.balancers->push_back(balancer);
      out.parts[balancer] = parts.options.at(balancer);
    }
  return out;
}

bool outlives_folding(const ResolvedRouter& router, const std::string& balancer) {
  const BalancerTraits traits =
      balancer_registry().at(balancer).traits_under(router.options.at(balancer));
  return traits.biases_choice || traits.keeps_thresholds;
}

}  // namespace penstock
