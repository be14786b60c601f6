// ReLU routing: every expert with a positive logit, weighted by it, or the highest few of these.
// No softmax.
#include <torch/types.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/top_mask.h"
#include "penstock/routers/router.h"

namespace penstock::relu {

struct Config {
  std::int64_t most = 0, leak_tokens = 4;
  double leak = 0;

  template <class V>
  void visit(V& v) {
    v("most", most,
      {.help = "a token gets the experts of its highest positive logits, at most so many; 0: all "
               "of them",
       .min = 0});
    v("leak", leak,
      {.help = "in training an expert without a token is computed for those nearest to it, with "
               "gates of 0, whose gradient reaches the logits times this; 0: no such tokens",
       .min = 0,
       .max = 1});
    v("leak_tokens", leak_tokens,
      {.help = "how many tokens of a micro-batch that are, for each such expert", .min = 1});
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
    // Under a cap the logits of other experts decide too, which no form of the gates says.
    if (most > 0) traits.gates = GateForm::other;
    traits.estimates_gradient = leak > 0;
  }
};

/// weight = max(z, 0), assigned where z > 0 (or NaN, which so reaches the loss), z the logit with
/// the bias of the choice and the shift of the context, if any. A token without a positive z gets
/// no expert. With a cap, assigned where z is among the `most` largest of the token as well, ties
/// to the lower expert index. Gradient: z, where assigned.
/// With a leak α, in training: an expert that no token of the micro-batch is assigned gets the
/// tokens of its highest z, with a weight of 0. Outputs are as without. Gradient: z, times α there;
/// so the loss says whether the expert would help these tokens, which no closed gate lets through.
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

  /// Whether a token gets an expert, [T, E], by the values of its logits.
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
    return make_plan(gates, taken_by.logical_or(nearest));
  }

  double k_;
  std::int64_t most_;  // granularity applied; 0 for no cap
  double leak_;
  std::int64_t leak_tokens_;
};

static const RegisterSelector<Relu, Config> registered{
    "relu",
    "every expert with a positive logit, weighted by the logit",
    "ReMoE, arXiv:2412.14711, Eq. 5",
    {.variable_active = true, .takes_bias = true, .gates = GateForm::relu}};

}  // namespace penstock::relu
