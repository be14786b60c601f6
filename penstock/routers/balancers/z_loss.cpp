// The router z-loss: keeps logits small, so that their softmax stays exact.
#include <torch/types.h>

#include <algorithm>

#include "penstock/routers/balancers/reductions.h"
#include "penstock/routers/registry.h"

namespace penstock::z_loss {

struct Config {
  double coefficient = 0.001;

  template <class V>
  void visit(V& v) {
    v("coefficient", coefficient, {.help = "factor of the loss", .min = 0, .coefficient = true});
  }
};

/// loss = α·mean_t logsumexp(z_t)².  Each layer has a loss; they are summed.
class ZLoss : public Balancer {
 public:
  ZLoss(const RouterShape&, const Config& config) : config_(config) {}

  BalancerOutput balance(const Scores& scores, const Plan& plan, const RoutingContext&) override {
    const double rows = static_cast<double>(std::max<std::int64_t>(1, scores.logits.size(0)));
    const at::Tensor loss =
        row_logsumexp(scores, plan).square().sum() * (config_.coefficient / rows);
    return {.loss = loss};
  }

 private:
  Config config_;
};

static const RegisterBalancer<ZLoss, Config> registered{
    "z-loss",
    "penalises large logits: mean squared logsumexp",
    "ST-MoE, arXiv:2202.08906, Eq. 5",
    {.needs_logits = true}};

}  // namespace penstock::z_loss
