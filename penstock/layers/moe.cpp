#include "penstock/layers/moe.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/routers/routing.h"

namespace penstock {

RouterShape router_shape(const MoeOptions& options) {
  return {.d_model = options.d_model,
          .experts = options.experts,
          .k = options.router.k * options.granularity,
          .granularity = static_cast<std::int64_t>(options.granularity),
          .layer = options.layer,
          .layers = options.layers};
}

void share_scorers(const std::vector<MoeLayer*>& layers) {
  for (MoeLayer* layer : layers) layer->router().scorer().share(layers.front()->router().scorer());
}

MoeLayer::MoeLayer(const MoeOptions& options, std::vector<std::shared_ptr<Balancer>> balancers) {
  PENSTOCK_CHECK(options.d_model > 0 && options.d_ffn > 0 && options.experts > 0,
                 "[moe] d_model, d_ffn and experts must be positive, got ", options.d_model, ", ",
                 options.d_ffn, ", ", options.experts);
  const ResolvedRouter resolved = resolve(options.router);
  const RouterShape shape = router_shape(options);
  if (balancers.empty()) {
    balancers = own_balancers_ = make_balancers(resolved, shape);
    for (std::size_t i = 0; i < own_balancers_.size(); ++i)
      register_module("balancer_" + std::to_string(i), own_balancers_[i]);
  }
  router_ =
      register_module("router", std::make_shared<Router>(resolved, shape, std::move(balancers)));
  const at::Generator draws = at::detail::getDefaultCPUGenerator();
  const double router_std =
      options.router.init_std > 0 ? options.router.init_std : options.init_std;
  router_->scorer().initialize(router_std, draws);
  experts_ = register_module("experts", std::make_shared<Experts>(options.experts, options.d_model,
                                                                  options.d_ffn, options.form));
  experts_->initialize(options.init_std, options.output_std, draws);
  if (options.shared_width > 0)
    shared_expert_ =
        register_module("shared_expert",
                        std::make_shared<FeedForward>(options.d_model, options.shared_width,
                                                      options.init_std, options.shared_output_std));
  if (options.shared_gate) {
    PENSTOCK_CHECK(shared_expert_, "[moe] shared_gate needs a shared_width above 0");
    shared_expert_gate_ =
        register_module("shared_expert_gate",
                        std::make_shared<Projection>(options.d_model, 1, false, options.init_std));
  }
}

at::Tensor MoeLayer::shared(const at::Tensor& x) {
  const at::Tensor y = shared_expert_->forward(x);
  return shared_expert_gate_ ? shared_expert_gate_->forward(x).sigmoid() * y : y;
}

MoeOutput MoeLayer::forward(const at::Tensor& x, const RoutingContext& context,
                            std::optional<std::int64_t> dropout_seed) {
  const at::Tensor hidden = x.reshape({-1, x.size(-1)});  // [T, d]
  RoutingContext complete = context;
  if (complete.sequence_length == 0)
    complete.sequence_length = x.dim() > 2 ? x.size(-2) : x.size(0);
  RoutingResult routing = router_->route(hidden, complete);
  at::Tensor y = experts_->forward(hidden, routing.plan, dropout_seed).view(x.sizes());
  if (shared_expert_) y = y + shared(x);
  if (context.training && !routing.plan.merges()) {
    assignments_ += routing.plan.assignments();
    pairs_ += routing.plan.tokens * routing.plan.experts;
  }
  return {std::move(y), std::move(routing)};
}

void MoeLayer::after_step() {
  const std::int64_t assignments = std::exchange(assignments_, 0), pairs = std::exchange(pairs_, 0);
  if (pairs == 0) return;
  const double sparsity = 1 - static_cast<double>(assignments) / static_cast<double>(pairs);
  for (const auto& balancer : own_balancers_) balancer->after_step({.sparsity = sparsity});
}

void recompute_experts(torch::nn::Module& model, bool recompute) {
  model.apply([&](torch::nn::Module& module) {
    if (auto* moe = dynamic_cast<MoeLayer*>(&module)) moe->experts().recompute = recompute;
  });
}

}  // namespace penstock
