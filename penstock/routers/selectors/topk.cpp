// Top-k: a token gets the k experts with the highest scores. k may have a schedule. Dropless: no
// capacity.
#include <torch/types.h>

#include "penstock/ops/ops.h"
#include "penstock/ops/pointwise.h"
#include "penstock/ops/top_mask.h"
#include "penstock/routers/k_schedule.h"
#include "penstock/routers/registry.h"

namespace penstock::topk {

enum class Softmax { before, after, none };
constexpr std::array<std::string_view, 3> words(Softmax) { return {"before", "after", "none"}; }

struct Config {
  Softmax softmax = Softmax::before;
  bool renormalise = false;
  KSchedule schedule;
  double distil = 0;

  template <class V>
  void visit(V& v) {
    v("softmax", softmax,
      {.help = "before: softmax over all E logits; after: softmax over the k kept logits; none: a "
               "sigmoid of each logit"});
    v("renormalise", renormalise, {.help = "divide the kept gates by their sum"});
    v("distil", distil,
      {.help =
           "weight of KL(p_E | p_k) in training: p_E is the prediction with all experts, from an "
           "extra pass without gradient, p_k the prediction with the step's k; 0: no extra pass",
       .min = 0});
    v("schedule", schedule, {.help = "schedule of k over the run"});
  }
  /// Whether the gates are the softmax over the kept logits. That softmax equals the kept
  /// probabilities divided by their sum.
  bool over_kept() const { return softmax == Softmax::after || renormalise; }
  void check(const RouterShape& shape) const {
    check_whole_k(shape, "topk");
    check_schedule(schedule, shape);
  }
  std::vector<OptionNote> notes(const RouterShape& shape, std::int64_t steps) const {
    return schedule_notes(schedule, shape, steps);
  }
  void refine(SelectorTraits& traits) const {
    traits.unit_gates = over_kept();
    traits.distillation = distil;
    if (softmax != Softmax::none)
      traits.gates = over_kept() ? GateForm::softmax_over_kept : GateForm::softmax_over_all;
  }
};

/// An expert e is kept if z_e is among the k largest logits. Ties go to the lower expert index.
///   before: weight = softmax(z)_e, divided by the sum of the kept weights with `renormalise`
///   after:  weight = softmax over the kept logits
///   none:   weight = sigmoid(z_e), divided by the sum of the kept weights with `renormalise`
/// With a bias b of the choice, e is kept if s_e + b_e is among the k largest, with s = softmax(z)
/// or sigmoid(z). The weights do not contain b (arXiv:2408.15664, Eq. 3).
class TopK : public Selector {
 public:
  TopK(const RouterShape& shape, const Config& config) : shape_(shape), config_(config) {}

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const std::int64_t k = scheduled_k(config_.schedule, shape_, context);
    const bool sigmoid = config_.softmax == Softmax::none;
    if (!sigmoid && !scores.choice_bias.defined())
      return make_plan(scores.logits, ops::route_topk(scores.logits, k, config_.over_kept()));
    at::Tensor gates = sigmoid ? sigmoid_of(scores.logits) : scores.logits.softmax(1);  // [T, E]
    const at::Tensor kept = ops::top_mask(
        scores.choice_bias.defined() ? gates.detach() + scores.choice_bias.to(gates.options())
                                     : scores.logits.detach(),
        k);
    // The smallest normal number avoids 0 / 0 in a row whose sigmoids are all 0.
    if (config_.over_kept())
      gates = gates / (gates * kept).sum(1, /*keepdim=*/true).clamp_min(0x1p-126);
    return make_plan(gates, kept);
  }

  double nominal_k(const RoutingContext& context) const override {
    return static_cast<double>(scheduled_k(config_.schedule, shape_, context));
  }

 private:
  static at::Tensor sigmoid_of(const at::Tensor& logits) {
    return ops::pointwise_alike(logits, [](const at::Tensor& x) { return x.sigmoid(); });
  }

  RouterShape shape_;
  Config config_;
};

static const RegisterSelector<TopK, Config> registered{
    "topk",
    "the k experts of highest logit, weighted by softmax before or after the choice",
    "Shazeer et al., arXiv:1701.06538; dropless as MegaBlocks, arXiv:2211.15841",
    {.has_k = true, .takes_highest = true, .takes_bias = true}};
static const RegisterOptionNotes<Config> notes{"topk"};

}  // namespace penstock::topk
