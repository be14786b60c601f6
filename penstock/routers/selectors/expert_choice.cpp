// Expert choice: experts choose tokens. In training an expert chooses among the whole micro-batch,
// later tokens included. Outside training it chooses by a threshold if a balancer keeps one
// (expert_threshold.cpp).
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "penstock/ops/top_mask.h"
#include "penstock/routers/registry.h"

namespace penstock::expert_choice {

struct Config {
  template <class V>
  void visit(V&) {}
};

/// p = softmax over E. Expert e takes the c = ⌊T·k/E⌋ tokens (at least one) of highest p_e; the
/// weight is p_e. Ties go to the earlier token. With thresholds θ expert e takes each token with
/// p_e ≥ θ_e instead; the weight is p_e. Then an expert may take any number of tokens, and a token
/// may get any number of experts.
class ExpertChoice : public Selector {
 public:
  ExpertChoice(const RouterShape& shape, const Config&) : shape_(shape) {}

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const at::Tensor probabilities = scores.logits.softmax(1);  // [T, E]
    if (scores.thresholds.defined())
      return make_plan(probabilities, probabilities.ge(scores.thresholds));
    const std::int64_t tokens = probabilities.size(0);
    const auto share = static_cast<std::int64_t>(
        std::floor(static_cast<double>(tokens) * shape_.k / static_cast<double>(shape_.experts)));
    const std::int64_t capacity = std::min(tokens, std::max<std::int64_t>(1, share));
    const at::Tensor taken = ops::top_mask(probabilities.t(), capacity).t();  // [T, E]
    Plan plan = make_plan(probabilities, taken);
    if (context.training && tokens > 0)
      plan.lowest_taken =
          probabilities.detach()
              .masked_fill(taken.logical_not(), std::numeric_limits<double>::infinity())
              .amin(0);
    return plan;
  }
  double nominal_k(const RoutingContext&) const override { return shape_.k; }

 private:
  RouterShape shape_;
};

static const RegisterSelector<ExpertChoice, Config> registered{
    "expert-choice",
    "each expert takes its T·k/E best tokens of the micro-batch",
    "Expert Choice, arXiv:2202.09368, Eq. 1-2",
    {.causal = false, .has_k = true, .even_loads = true, .takes_thresholds = true}};

}  // namespace penstock::expert_choice
