// The router that is drawn once and never trained. Gradients pass through it to the tokens, not to
// its weights.
#include <torch/types.h>

#include "penstock/routers/registry.h"
#include "penstock/routers/scorers/affine.h"

namespace penstock::random_router {

struct Config {
  bool bias = true;

  template <class V>
  void visit(V& v) {
    v("bias", bias, {.help = "have a bias, which stays 0, as the authors' linear gate does"});
  }
};

/// logits = hidden · Wᵀ,  W ~ N(0, std²).  The weights are saved with the model, so that a
/// checkpoint's routes do not depend on the random number generator.
class Random : public AffineScorer {
 public:
  Random(const RouterShape& shape, const Config& config)
      : AffineScorer(shape, config.bias, /*frozen=*/true) {}
};

static const RegisterScorer<Random, Config> registered{
    "random",
    "a random matrix that is never trained",
    "SMoE-Dropout, arXiv:2303.01610, and its authors' code",
    {.trainable = false, .foldable = true, .one_matrix = true}};

}  // namespace penstock::random_router
