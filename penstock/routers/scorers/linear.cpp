// The plain router: one matrix, optionally a bias, optionally never trained.
#include <torch/types.h>

#include "penstock/routers/registry.h"
#include "penstock/routers/scorers/affine.h"

namespace penstock::linear {

struct Config {
  bool bias = false;
  bool frozen = false;

  template <class V>
  void visit(V& v) {
    v("bias", bias, {.help = "add a bias to the logits"});
    v("frozen", frozen, {.help = "do not train the weights, whether random or loaded"});
  }
  void refine(ScorerTraits& traits) const { traits.trainable = !frozen; }
};

class Linear : public AffineScorer {
 public:
  Linear(const RouterShape& shape, const Config& config)
      : AffineScorer(shape, config.bias, config.frozen) {}
};

static const RegisterScorer<Linear, Config> registered{
    "linear",
    "one trained matrix, optionally with a bias or frozen",
    "Shazeer et al., arXiv:1701.06538, Eq. 3 without noise",
    {.foldable = true, .one_matrix = true}};

}  // namespace penstock::linear
