// The router of one layer, which joins a scorer, a selector and balancers.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/ops/initial_draws.h"
#include "penstock/routers/parts.h"
#include "penstock/routers/resolve.h"
#include "penstock/routers/routing.h"

namespace penstock {

/// Makes the balancers of a model in the order of `router.balancers`. The model's layers share
/// them. The model registers them as modules, so that their buffers are saved.
std::vector<std::shared_ptr<Balancer>> make_balancers(const ResolvedRouter& router,
                                                      const RouterShape& shape);

std::shared_ptr<Scorer> make_scorer(const ResolvedRouter& router, const RouterShape& shape);
std::shared_ptr<Selector> make_selector(const ResolvedRouter& router, const RouterShape& shape);

/// The router of one layer. It has its own scorer and selector, and the model's balancers.
class Router : public torch::nn::Module {
 public:
  /// Parameters are not initialised.
  Router(const ResolvedRouter& config, const RouterShape& shape,
         std::vector<std::shared_ptr<Balancer>> balancers);
  /// Draws the scorer's parameters (Scorer::initialize) and starts the balancers.
  void initialize(double std, const InitialDraws& draws);
  /// Starts the balancers with the scorer's present parameters (Balancer::start). For parameters
  /// that were not drawn but made, before the first step.
  void start_balancers();

  /// Computes scores, plan, losses and statistics of one pass. Losses exist only if
  /// context.training. Statistics have "expert_tokens" [E] i64 unless the plan merges.
  /// @param hidden [T, d]
  RoutingResult route(const at::Tensor& hidden, const RoutingContext& context);

  Scorer& scorer() { return *scorer_; }
  /// Replaces the layer's scorer by one that wraps it.
  void wrap_scorer(const std::function<std::shared_ptr<Scorer>(std::shared_ptr<Scorer>)>& around);
  const Selector& selector() const { return *selector_; }
  const RouterTraits& traits() const { return traits_; }

 private:
  at::Tensor choice_bias(bool training) const;
  at::Tensor thresholds() const;
  void add_losses(RoutingResult& result, const RoutingContext& context);

  std::string scorer_name_;
  std::vector<std::string> balancer_names_;  // of balancers_
  std::shared_ptr<Scorer> scorer_;
  std::shared_ptr<Selector> selector_;
  std::vector<std::shared_ptr<Balancer>> balancers_;
  RouterTraits traits_;
  std::int64_t layer_;
};

}  // namespace penstock
