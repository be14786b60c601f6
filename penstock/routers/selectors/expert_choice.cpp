// Expert choice: experts pick tokens. The choice is over the whole micro-batch, so it sees the
// future.
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "penstock/ops/top_mask.h"
#include "penstock/routers/router.h"

namespace penstock::expert_choice {

struct Config {
  template <class V>
  void visit(V&) {}
};

/// p = softmax over E; expert e takes its c = ⌊T·k/E⌋ tokens (at least one) of highest p_e, weight
/// p. Ties go to the earlier token.
class ExpertChoice : public Selector {
 public:
  ExpertChoice(const RouterShape& shape, const Config&) : shape_(shape) {}

  Plan select(const Scores& scores, const RoutingContext&) override {
    const at::Tensor probabilities = scores.logits.softmax(1);  // [T, E]
    const std::int64_t tokens = probabilities.size(0);
    const auto share = static_cast<std::int64_t>(
        std::floor(static_cast<double>(tokens) * shape_.k / static_cast<double>(shape_.experts)));
    const std::int64_t capacity = std::min(tokens, std::max<std::int64_t>(1, share));
    return make_plan(probabilities, ops::top_mask(probabilities.t(), capacity).t());
  }
  double nominal_k(const RoutingContext&) const override { return shape_.k; }

 private:
  RouterShape shape_;
};

static const RegisterSelector<ExpertChoice, Config> registered{
    "expert-choice",
    "each expert takes its T·k/E best tokens of the micro-batch",
    "Expert Choice, arXiv:2202.09368, Eq. 1-2",
    {.causal = false, .has_k = true, .even_loads = true}};

}  // namespace penstock::expert_choice
