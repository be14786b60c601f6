// Top-k with a capacity (Switch Transformer): a full expert refuses further tokens. The residual
// alone carries a refused token.
#include <torch/types.h>

#include "penstock/ops/top_mask.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/selectors/capacity_selector.h"

namespace penstock::topk_capacity {

enum class Softmax { before, after };
constexpr std::array<std::string_view, 2> words(Softmax) { return {"before", "after"}; }

struct Config {
  Softmax softmax = Softmax::before;
  CapacityKeys capacity = {.training = 1.25, .evaluation = 2};

  template <class V>
  void visit(V& v) {
    v("softmax", softmax,
      {.help = "before: softmax over all E logits; after: softmax over the k chosen logits, "
               "including refused experts"});
    capacity.visit(v);
  }
  bool over_requested() const { return softmax == Softmax::after; }
  void check(const RouterShape& shape) const {
    check_whole_k(shape, "topk-capacity");
    check_capacity("topk-capacity", capacity.training, capacity.evaluation);
  }
  void refine(SelectorTraits& traits) const {
    traits.unit_gates = over_requested();
    traits.gates = over_requested() ? GateForm::softmax_over_kept : GateForm::softmax_over_all;
  }
};

/// Each token requests the experts of its k highest logits. Expert e takes the first
/// C = ⌈capacity·k·T/E⌉ requests in the order of tokens. T is the micro-batch's number of tokens.
/// weight = softmax over all logits, or over the k requested. A token that all its experts refuse
/// gets output 0. Balance losses count requests, as Switch's f does (Eq. 5). HyperRouter's code
/// counts kept requests, and its capacity is ⌈1.2·T⌉ per expert, which refuses no token.
class TopKCapacity : public CapacitySelector<Config> {
 public:
  using CapacitySelector::CapacitySelector;

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const at::Tensor& logits = scores.logits;  // [T, E]
    const at::Tensor requested =
        ops::top_mask(logits.detach(), static_cast<std::int64_t>(nominal_k(context)));
    const at::Tensor kept = within_capacity(requested, places(logits, context));
    const at::Tensor gates =
        config_.over_requested() ? softmax_among(logits, requested) : logits.softmax(1);
    Plan plan = make_plan(gates, kept);
    plan.demand = requested.sum(0).cpu();
    plan.overflow = total(plan.demand) - plan.assignments();
    return plan;
  }
};

static const RegisterSelector<TopKCapacity, Config> registered{
    "topk-capacity",
    "the k experts of highest logit, each with a capacity; overflow to the residual",
    "Switch Transformer, arXiv:2101.03961, Eq. 3 and section 2.2",
    {.order_matters = true, .has_k = true, .takes_highest = true, .drops = true}};

}  // namespace penstock::topk_capacity
