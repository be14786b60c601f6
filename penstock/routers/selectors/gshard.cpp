// GShard's gating: the best expert always, the second best at random, both with a capacity.
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/top_mask.h"
#include "penstock/routers/draws.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/selectors/capacity_selector.h"

namespace penstock::gshard {

struct Config {
  CapacityKeys capacity;
  bool random_eval = false;

  template <class V>
  void visit(V& v) {
    capacity.visit(v);
    v("random_eval", random_eval, {.help = "also draw the second expert outside training"});
  }
  void check(const RouterShape& shape) const {
    PENSTOCK_CHECK((shape.k == 1 || shape.k == 2) && shape.k <= static_cast<double>(shape.experts),
                   "model.router.k gives ", shape.k, " of ", shape.experts,
                   " active experts; selector 'gshard' takes 1 or 2");
    check_capacity("gshard", capacity.training, capacity.evaluation);
  }
};

/// g₁, g₂ = softmax over the two highest logits. A token always requests its first expert. In
/// training it requests the second only if 2·g₂ > u, u ~ U(0, 1). An expert has the capacity
/// C = ⌈capacity·k·T/E⌉: first choices get it in the order of tokens, then second choices. Refusals
/// do not change the weights g₁ and g₂. k is 2, or 1 for the first expert alone (g₁ = 1).
/// The selector is not causal, as published: a later token's first choice can displace an earlier
/// token's second choice. Balance losses count first choices, before any refusal. HyperRouter's
/// code counts both choices, and its capacity is ⌈1.2·T⌉ per expert, which refuses no token.
class GShard : public CapacitySelector<Config> {
 public:
  using CapacitySelector::CapacitySelector;

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const at::Tensor& logits = scores.logits;  // [T, E]
    const double k = nominal_k(context);
    PENSTOCK_CHECK(k <= 2, "[gshard] k = ", k, "; this selector takes 1 or 2");
    const std::int64_t capacity = places(logits, context);
    const at::Tensor first = ops::top_mask(logits.detach(), 1);
    const at::Tensor both = ops::top_mask(logits.detach(), static_cast<std::int64_t>(k));
    const at::Tensor gates = softmax_among(logits, both);
    at::Tensor second = both.logical_and(first.logical_not());
    if (k == 2 && (context.training || config_.random_eval))
      second = second.logical_and(
          (2 * gates.detach()).gt(draw_uniform({logits.size(0), 1}, gates, context)));
    const at::Tensor demand = first.sum(0);  // [E]
    const at::Tensor kept =
        within_capacity(first, capacity).logical_or(within_capacity(second, capacity, demand));
    Plan plan = make_plan(gates, kept);
    const at::Tensor counts = at::stack({demand, second.sum(0)}).cpu();  // [2, E], read at once
    plan.demand = counts[0];
    plan.overflow = total(counts) - plan.assignments();
    return plan;
  }
};

static const RegisterSelector<GShard, Config> registered{
    "gshard",
    "the best expert and, by the chance of its gate, the second; overflow to the residual",
    "GShard, arXiv:2006.16668, Algorithm 1",
    {.causal = false,
     .order_matters = true,
     .stochastic = true,
     .has_k = true,
     .takes_highest = true,
     .drops = true,
     .unit_gates = true,
     .most_k = 2}};

}  // namespace penstock::gshard
