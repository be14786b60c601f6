// ReLU routing: every expert with a positive logit, weighted by it, or the highest few of these.
// No softmax.
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/top_mask.h"
#include "penstock/routers/router.h"

namespace penstock::relu {

struct Config {
  std::int64_t most = 0;

  template <class V>
  void visit(V& v) {
    v("most", most,
      {.help = "a token gets the experts of its highest positive logits, at most so many; 0: all "
               "of them",
       .min = 0});
  }
  /// Under a cap the logits of other experts decide too, which no form of the gates says.
  void refine(SelectorTraits& traits) const {
    if (most > 0) traits.gates = GateForm::other;
  }
};

/// weight = max(z, 0), assigned where z > 0 (or NaN, which so reaches the loss), z the logit with
/// the bias of the choice and the shift of the context, if any. A token without a positive z gets
/// no expert. With a cap, assigned where z is among the `most` largest of the token as well, ties
/// to the lower expert index. Gradient: z, where assigned.
class Relu : public Selector {
 public:
  Relu(const RouterShape& shape, const Config& config)
      : k_(shape.k), most_(config.most * shape.granularity) {
    PENSTOCK_CHECK(most_ <= shape.experts, "model.router.relu.most = ", config.most,
                   " must be at most ", shape.experts / shape.granularity,
                   ", the number of experts");
    PENSTOCK_CHECK(most_ == 0 || k_ <= static_cast<double>(most_),
                   "model.router.relu.most = ", config.most,
                   " keeps a token from the k = ", k_ / static_cast<double>(shape.granularity),
                   " experts that are aimed at; raise it, or lower model.router.k");
  }

  Plan select(const Scores& scores, const RoutingContext& context) override {
    at::Tensor logits = scores.logits;
    if (scores.choice_bias.defined()) logits = logits + scores.choice_bias.to(logits.options());
    if (context.logit_shift != 0) logits = logits + context.logit_shift;
    if (most_ == 0) return make_plan(logits, ops::route_relu(logits));
    const at::Tensor values = logits.detach();
    return make_plan(logits,
                     ops::top_mask(values, most_).logical_and_(values.le(0).logical_not_()));
  }
  double nominal_k(const RoutingContext&) const override { return k_; }

 private:
  double k_;
  std::int64_t most_;  // granularity applied; 0 for no cap
};

static const RegisterSelector<Relu, Config> registered{
    "relu",
    "every expert with a positive logit, weighted by the logit",
    "ReMoE, arXiv:2412.14711, Eq. 5",
    {.variable_active = true, .takes_bias = true, .gates = GateForm::relu}};

}  // namespace penstock::relu
