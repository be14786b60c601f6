// ReLU routing: every expert with a positive logit, weighted by it. No k, no softmax, no cap.
#include <torch/types.h>

#include "penstock/ops/ops.h"
#include "penstock/routers/router.h"

namespace penstock::relu {

struct Config {
  template <class V>
  void visit(V&) {}
};

/// weight = max(z, 0), assigned where z > 0 (or NaN, which so reaches the loss). A token without a
/// positive logit gets no expert.
class Relu : public Selector {
 public:
  Relu(const RouterShape& shape, const Config&) : k_(shape.k) {}

  Plan select(const Scores& scores, const RoutingContext&) override {
    return make_plan(scores.logits, ops::route_relu(scores.logits));
  }
  double nominal_k(const RoutingContext&) const override { return k_; }

 private:
  double k_;
};

static const RegisterSelector<Relu, Config> registered{
    "relu",
    "every expert with a positive logit, weighted by the logit",
    "ReMoE, arXiv:2412.14711, Eq. 5",
    {.variable_active = true, .gates = GateForm::relu}};

}  // namespace penstock::relu
