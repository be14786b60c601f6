// Evens out the experts' expected numbers of tokens, which noise makes differentiable (noisy top-k
// gating).
#include <torch/types.h>

#include <cmath>

#include "penstock/routers/balancers/squared_variation.h"
#include "penstock/routers/registry.h"

namespace penstock::load {

struct Config {
  double coefficient = 0.1;

  template <class V>
  void visit(V& v) {
    v("coefficient", coefficient, {.help = "factor of the loss", .min = 0, .coefficient = true});
  }
};

/// loss = α·CV²(L),  L_e = Σ_t Φ((clean_te − others_te) / scale_te).  others_te is the k-th highest
/// noisy logit of token t among the other experts. Φ(..) is the probability that e is among the k
/// if only the noise of e is drawn again. The loss is 0 if k = E.
/// Gradient: clean and noisy logits, scale. others_te is not held constant, as in the authors'
/// code.
class Load : public Balancer {
 public:
  Load(const RouterShape&, const Config& config) : config_(config) {}

  BalancerOutput balance(const Scores& scores, const Plan& plan, const RoutingContext&) override {
    const at::Tensor loss = squared_variation(expected_load(scores, plan)) * config_.coefficient;
    return {.loss = loss};
  }

 private:
  static at::Tensor expected_load(const Scores& scores, const Plan& plan) {
    const at::Tensor& noisy = scores.logits;  // [T, E]
    const auto k = static_cast<std::int64_t>(plan.k);
    if (k >= plan.experts) return at::full({plan.experts}, plan.tokens, noisy.options());
    const at::Tensor highest = std::get<0>(noisy.topk(k + 1, 1));  // [T, k + 1], descending
    const at::Tensor next = highest.slice(1, k), kth = highest.slice(1, k - 1, k);
    const at::Tensor others = at::where(noisy.gt(next), next, kth);  // [T, E]
    const at::Tensor distance = (scores.clean_logits - others) / scores.noise_scale;
    return (0.5 * at::erfc(distance * -std::sqrt(0.5))).sum(0);
  }

  Config config_;
};

static const RegisterBalancer<Load, Config> registered{
    "load",
    "evens out the experts' expected numbers of tokens under the scorer's noise",
    "Shazeer et al., arXiv:1701.06538, appendix A, Eq. 8-11",
    {.needs_logits = true,
     .needs_assignments = true,
     .needs_noisy_choice = true,
     .evens_loads = true}};

}  // namespace penstock::load
