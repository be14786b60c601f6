// Evens out the sums of gates over a micro-batch (noisy top-k gating).
#include <torch/types.h>

#include "penstock/routers/balancers/reductions.h"
#include "penstock/routers/balancers/squared_variation.h"
#include "penstock/routers/registry.h"

namespace penstock::importance {

struct Config {
  double coefficient = 0.1;

  template <class V>
  void visit(V& v) {
    v("coefficient", coefficient, {.help = "factor of the loss", .min = 0, .coefficient = true});
  }
};

/// loss = α·CV²(I),  I_e = Σ_t weight_te.  Each layer has a loss; they are summed.
class Importance : public Balancer {
 public:
  Importance(const RouterShape&, const Config& config) : config_(config) {}

  BalancerOutput balance(const Scores&, const Plan& plan, const RoutingContext&) override {
    const at::Tensor loss = squared_variation(gate_sums(plan).squeeze(0)) * config_.coefficient;
    return {.loss = loss};
  }

 private:
  Config config_;
};

static const RegisterBalancer<Importance, Config> registered{
    "importance",
    "evens out the experts' sums of gates: their squared coefficient of variation",
    "Shazeer et al., arXiv:1701.06538, Eq. 6-7",
    {.needs_logits = true, .needs_assignments = true, .evens_loads = true}};

}  // namespace penstock::importance
