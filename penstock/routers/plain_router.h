// Routers for code that knows no part: no router, the plain top-k of other programs' models, and a
// router with a folded scorer. This file says which parts they are.
#pragma once

#include "penstock/routers/resolve.h"

namespace penstock {

/// The config of a model without experts.
RouterConfig no_router();

/// The router of other programs' MoE models: one matrix, the k highest logits, softmax gates.
struct PlainRouter {
  double k = 1;
  bool softmax_over_kept = false;  ///< false: over all logits
  bool renormalise = false;        ///< the kept gates divided by their sum
  double jitter = 0;               ///< half the width of the noise on tokens; 0: none
  /// Coefficient of Switch's balance loss; nullopt: no balancer.
  std::optional<double> balance = std::nullopt;
};
RouterConfig plain_router(const PlainRouter& router);

/// The coefficient of the router's Switch balance loss; 0 without that loss.
double balance_coefficient(const RouterConfig& router);

/// The router for use outside training: a frozen matrix (and bias) is its scorer. It keeps only the
/// balancers that bias the choice or keep thresholds.
RouterConfig folded_router(const RouterConfig& router, bool bias);

/// Whether the folded router keeps one of the router's balancers.
bool outlives_folding(const ResolvedRouter& router, const std::string& balancer);

}  // namespace penstock
