// The plain router over tokens with multiplicative noise in training (Switch Transformer).
#include <torch/types.h>

#include "penstock/routers/draws.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/scorers/affine.h"

namespace penstock::jitter_linear {

struct Config {
  double epsilon = 0.01;
  bool bias = false;

  template <class V>
  void visit(V& v) {
    v("epsilon", epsilon, {.help = "ε: factors are drawn from 1-ε to 1+ε", .min = 0, .max = 1});
    v("bias", bias, {.help = "add a bias to the logits"});
  }
};

/// logits = (hidden ⊙ u) · Wᵀ + b.  In training u ~ U(1 − ε, 1 + ε) for each entry; outside u = 1.
/// This is the published form. HyperRouter's code adds U(0.9, 1.1) to the logits instead.
class JitterLinear : public AffineScorer {
 public:
  JitterLinear(const RouterShape& shape, const Config& config)
      : AffineScorer(shape, config.bias, /*frozen=*/false), epsilon_(config.epsilon) {}

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override {
    if (!context.training || epsilon_ == 0) return {.logits = logits(hidden)};
    const at::Tensor factors = draw_uniform(hidden.sizes(), hidden, context);
    return {.logits = logits(hidden * (factors * (2 * epsilon_) + (1 - epsilon_)))};  // [T, E]
  }

 private:
  double epsilon_;
};

static const RegisterScorer<JitterLinear, Config> registered{
    "jitter-linear",
    "one trained matrix over tokens times uniform noise",
    "Switch Transformer, arXiv:2101.03961, section 2.2 and appendix C",
    {.order_matters = true, .stochastic = true, .foldable = true, .one_matrix = true}};

}  // namespace penstock::jitter_linear
