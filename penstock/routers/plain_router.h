// Routers that others build models around without knowing any part: none, the plain top-k of other
// programs' models, and a router whose scorer was folded. Which parts these are is said here.
#pragma once

#include "penstock/routers/router.h"

namespace penstock {

/// The config of a model without experts.
RouterConfig no_router();

/// The router of other programs' MoE models: one matrix, the k highest logits, softmax gates.
struct PlainRouter {
  double k = 1;
  bool softmax_over_kept = false;  ///< else over all logits
  bool renormalise = false;        ///< the kept gates divided by their sum
  double jitter = 0;               ///< half the width of the noise on tokens; 0: none
  /// Coefficient of Switch's balance loss; nullopt: no balancer.
  std::optional<double> balance = std::nullopt;
};
RouterConfig plain_router(const PlainRouter& router);

/// The coefficient of Switch's balance loss; 0 where the router has none.
double balance_coefficient(const RouterConfig& router);

/// The router with a frozen matrix (and bias) for its scorer, and of the balancers those alone that
/// bias the choice or keep thresholds of it: what is left to compute outside training.
RouterConfig folded_router(const RouterConfig& router, bool bias);

/// Whether one of the router's balancers stays when it is folded.
bool outlives_folding(const ResolvedRouter& router, const std::string& balancer);

}  // namespace penstock
