// The load-balancing loss of Switch Transformer. Not a constraint: experts may stay unbalanced.
#include <torch/types.h>

#include "penstock/routers/balancers/load_fraction.h"
#include "penstock/routers/balancers/reductions.h"
#include "penstock/routers/registry.h"

namespace penstock::load_balance {

struct Config {
  double coefficient = 0.01;
  LoadScope load;

  template <class V>
  void visit(V& v) {
    v("coefficient", coefficient, {.help = "factor of the loss", .min = 0, .coefficient = true});
    load.visit(v);
  }
  void check(const RouterShape& shape) const { load.check("load-balance", shape.experts); }
  void refine(BalancerTraits& traits) const { load.refine(traits); }
};

/// loss = α·E·Σ_e f_e·P_e,  f_e = c_e/(kT) without gradient,  P_e = mean_t softmax(z_t)_e.
/// Each layer has a loss; they are summed. k is the k of this step. With the scope sequence the
/// loss is the mean of the sequences' losses (DeepSeek-V3, arXiv:2412.19437, Eq. 17-20). P is that
/// of the softmax under sigmoid gates too, where DeepSeek-V3 divides the sigmoids by their sum.
/// With the scope global the mean over micro-batches is the loss of the whole step, since the loss
/// is linear in P.
class LoadBalance : public Balancer {
 public:
  LoadBalance(const RouterShape&, const Config& config) : config_(config) {}

  BalancerOutput balance(const Scores& scores, const Plan& plan,
                         const RoutingContext& context) override {
    const std::int64_t groups = config_.load.groups(plan, context);
    const at::Tensor mean = mean_probability(scores, plan, groups).flatten();  // [G·E]
    const at::Tensor fraction =
        load_fraction(plan, config_.load, context).flatten().to(mean.options());
    const at::Tensor loss = mean.dot(fraction) * (config_.coefficient / groups);
    return {.loss = loss};
  }

 private:
  Config config_;
};

static const RegisterBalancer<LoadBalance, Config> registered{
    "load-balance",
    "pulls every expert's share of tokens towards the mean",
    "Switch Transformer, arXiv:2101.03961, Eq. 4-6; k > 1 as in MegaBlocks",
    {.needs_logits = true, .needs_assignments = true, .evens_loads = true}};

}  // namespace penstock::load_balance
