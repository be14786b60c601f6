// ReLU routing: every expert with a positive logit, weighted by it. No k, no softmax, no cap.
#include <torch/types.h>

#include "penstock/ops/ops.h"
#include "penstock/routers/router.h"

namespace penstock::relu {

struct Config {
  template <class V>
  void visit(V&) {}
};

/// weight = max(z, 0), assigned where z > 0 (or NaN, which so reaches the loss), z the logit with
/// the bias of the choice and the shift of the context, if any. A token without a positive z gets
/// no expert.
class Relu : public Selector {
 public:
  Relu(const RouterShape& shape, const Config&) : k_(shape.k) {}

  Plan select(const Scores& scores, const RoutingContext& context) override {
    at::Tensor logits = scores.logits;
    if (scores.choice_bias.defined()) logits = logits + scores.choice_bias.to(logits.options());
    if (context.logit_shift != 0) logits = logits + context.logit_shift;
    return make_plan(logits, ops::route_relu(logits));
  }
  double nominal_k(const RoutingContext&) const override { return k_; }

 private:
  double k_;
};

static const RegisterSelector<Relu, Config> registered{
    "relu",
    "every expert with a positive logit, weighted by the logit",
    "ReMoE, arXiv:2412.14711, Eq. 5",
    {.variable_active = true, .takes_bias = true, .gates = GateForm::relu}};

}  // namespace penstock::relu
