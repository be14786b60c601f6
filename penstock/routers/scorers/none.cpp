// No scorer: for selectors that do not read logits (hash).
#include <torch/types.h>

#include "penstock/routers/registry.h"

namespace penstock::none {

struct Config {
  template <class V>
  void visit(V&) {}
};

/// logits = 0.  No parameters, no gradient.
class None : public Scorer {
 public:
  None(const RouterShape& shape, const Config&) : experts_(shape.experts) {}

  Scores score(const at::Tensor& hidden, const RoutingContext&) override {
    return {.logits = at::zeros({hidden.size(0), experts_}, hidden.options())};  // [T, E]
  }
  void initialize(double, const InitialDraws&) override {}
  std::int64_t multiply_adds_per_token() const override { return 0; }

 private:
  std::int64_t experts_;
};

static const RegisterScorer<None, Config> registered{"none",
                                                     "no logits, for selectors that ignore them",
                                                     "-",
                                                     {.trainable = false, .no_logits = true}};

}  // namespace penstock::none
