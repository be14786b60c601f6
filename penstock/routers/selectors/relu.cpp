// ReLU routing: a token gets every expert with a positive logit, or the highest few of these. The
// gate is the logit. No softmax.
#include <torch/types.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/top_mask.h"
#include "penstock/routers/registry.h"

namespace penstock::relu {

struct Config {
  std::int64_t most = 0, leak_tokens = 4;
  double leak = 0;

  template <class V>
  void visit(V& v) {
    v("most", most,
      {.help = "maximum number of experts of a token, those with its highest positive logits; 0: "
               "no maximum",
       .min = 0});
    v("leak", leak,
      {.help = "in training, an expert without tokens is also computed for the tokens with its "
               "highest logits, with gates of 0; the gates' gradient reaches the logits, "
               "multiplied by this factor; 0: off",
       .min = 0,
       .max = 1});
    v("leak_tokens", leak_tokens,
      {.help = "number of these tokens in a micro-batch, for each expert without tokens",
       .min = 1});
  }
  void check(const RouterShape& shape) const {
    const auto k = shape.k / static_cast<double>(shape.granularity);
    PENSTOCK_CHECK(most <= shape.experts / shape.granularity, "model.router.relu.most = ", most,
                   " must be at most ", shape.experts / shape.granularity,
                   ", the number of experts");
    PENSTOCK_CHECK(most == 0 || k <= static_cast<double>(most), "model.router.relu.most = ", most,
                   " keeps a token from the k = ", k,
                   " experts that are aimed at; raise it, or lower model.router.k");
  }
  void refine(SelectorTraits& traits) const {
    // With a cap a gate depends on the logits of other experts too. No GateForm describes that.
    if (most > 0) traits.gates = GateForm::other;
    traits.most_k = most;
    traits.estimates_gradient = leak > 0;
  }
};

/// weight = max(z, 0). z is the logit plus the bias of the choice and the context's shift, if any.
/// An expert is assigned if z > 0, or if z is NaN, so that a NaN reaches the loss. A token without
/// a positive z gets no expert. With a cap, z must also be among the token's `most` largest; ties
/// go to the lower expert index. Gradient: z, for assigned experts.
/// With a leak α, in training: an expert without a token in the micro-batch gets the tokens of its
/// highest z, with a weight of 0. The layer's output does not change. Gradient: z, times α for
/// these tokens. The gradient then tells whether the expert would help these tokens; a closed gate
/// has no gradient. Counts, loads and sparsity leave these assignments out (Plan::idle).
class Relu : public Selector {
 public:
  Relu(const RouterShape& shape, const Config& config)
      : k_(shape.k),
        most_(config.most * shape.granularity),
        leak_(config.leak),
        leak_tokens_(config.leak_tokens) {}

  Plan select(const Scores& scores, const RoutingContext& context) override {
    at::Tensor logits = scores.logits;
    if (scores.choice_bias.defined()) logits = logits + scores.choice_bias.to(logits.options());
    if (context.logit_shift != 0) logits = logits + context.logit_shift;
    Plan plan = most_ == 0 ? make_plan(logits, ops::route_relu(logits))
                           : make_plan(logits, taken(logits.detach()));
    const bool leaks = leak_ > 0 && context.training && logits.size(0) > 0;
    return leaks && leaves_idle(plan) ? leaking_plan(logits) : plan;
  }
  double nominal_k(const RoutingContext&) const override { return k_; }

 private:
  /// Whether an expert gets no token.
  static bool leaves_idle(const Plan& plan) {
    const auto* const offsets = plan.offsets.data_ptr<std::int64_t>();
    return std::adjacent_find(offsets, offsets + plan.experts + 1) != offsets + plan.experts + 1;
  }

  /// Whether each token gets each expert, [T, E], from the values of the logits.
  at::Tensor taken(const at::Tensor& values) const {
    at::Tensor out = values.le(0).logical_not_();
    if (most_ > 0) out.logical_and_(ops::top_mask(values, most_));
    return out;
  }

  Plan leaking_plan(const at::Tensor& logits) const {
    const at::Tensor values = logits.detach(), taken_by = taken(values);
    const at::Tensor idle = taken_by.any(0).logical_not_();  // [E]
    const std::int64_t count = std::min(leak_tokens_, values.size(0));
    const at::Tensor nearest =  // [T, E]
        ops::top_mask(values.t().contiguous(), count)
            .t()
            .logical_and(idle)
            .logical_and(values.isfinite());
    const at::Tensor gates = at::where(nearest, leak_ * (logits - values), logits);
    Plan plan = make_plan(gates, taken_by.logical_or(nearest));
    plan.idle = idle.cpu();
    return plan;
  }

  double k_;
  std::int64_t most_;  // with granularity applied; 0: no cap
  double leak_;
  std::int64_t leak_tokens_;
};

static const RegisterSelector<Relu, Config> registered{
    "relu",
    "every expert with a positive logit, weighted by the logit",
    "ReMoE, arXiv:2412.14711, Eq. 5",
    {.variable_active = true, .takes_bias = true, .gates = GateForm::relu}};

}  // namespace penstock::relu
