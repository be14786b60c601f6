// LocMoE's locality loss: pulls tokens towards the experts of their own rank.
#include <torch/types.h>
#include <torch/utils.h>

#include <numeric>

#include "penstock/base/error.h"
#include "penstock/routers/balancers/reductions.h"
#include "penstock/routers/registry.h"

namespace penstock::locality {

struct Config {
  double coefficient = 0;
  double elsewhere = 0.01;

  template <class V>
  void visit(V& v) {
    v("coefficient", coefficient,
      {.help = "μ, factor of the loss; LocMoE gives no value", .min = 0, .coefficient = true});
    v("elsewhere", elsewhere,
      {.help = "share of tokens that the local distribution assigns to experts of other ranks",
       .min = 1e-6,
       .max = 0.999});
  }
};

/// loss = μ·KL(P ‖ L) = μ·Σ_e P_e·ln(P_e / L_e),  P_e = mean_t softmax(z_t)_e.
/// L is the local distribution: a share 1 − ε is even over this rank's experts, and a share ε is
/// even over the other experts. Without ε the divergence would be infinite (our choice). L is even
/// over all experts if all, or none, are local.
/// An expert is local if its `expert_rank` is the context's rank. Without expert_rank every rank
/// holds all experts, and the local expert is number rank mod E. The loss therefore depends on the
/// number of ranks.
/// Each layer has a loss; they are summed. Gradient: logits. Source: LocMoE, arXiv:2401.13920.
class Locality : public Balancer {
 public:
  Locality(const RouterShape&, const Config& config) : config_(config) {}

  BalancerOutput balance(const Scores& scores, const Plan& plan,
                         const RoutingContext& context) override {
    const at::Tensor mean = mean_probability(scores, plan).squeeze(0);  // [E]
    const at::Tensor local = local_distribution(mean.size(0), context).to(mean.options());
    const at::Tensor logs = mean.clamp_min(1e-30).log() - local.log();
    const at::Tensor loss = mean.dot(logs) * config_.coefficient;
    return {.loss = loss};
  }

 private:
  at::Tensor local_distribution(std::int64_t experts, const RoutingContext& context) const {
    const torch::NoGradGuard no_grad;
    at::Tensor local;  // [E] f64, 0 or 1
    if (context.expert_rank.defined()) {
      PENSTOCK_CHECK(context.expert_rank.numel() == experts, "expert_rank names ",
                     context.expert_rank.numel(), " experts of ", experts);
      local = context.expert_rank.eq(context.rank).to(at::kDouble).cpu();
    } else {
      local = at::zeros({experts}, at::kDouble);
      local[context.rank % experts] = 1;
    }
    const auto* of = local.data_ptr<double>();
    const double here = std::accumulate(of, of + experts, 0.0),
                 there = static_cast<double>(experts) - here;
    if (here == 0 || there == 0)
      return at::full({experts}, 1 / static_cast<double>(experts), local.options());
    return local * ((1 - config_.elsewhere) / here) + (1 - local) * (config_.elsewhere / there);
  }

  Config config_;
};

static const RegisterBalancer<Locality, Config> registered{
    "locality",
    "pulls tokens towards the experts of their own rank",
    "LocMoE, arXiv:2401.13920",
    {.needs_logits = true, .of_layout = true}};

}  // namespace penstock::locality
