// The k experts with the highest logits, on a schedule of k. Dropless: no capacity.
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/routers/k_schedule.h"
#include "penstock/routers/router.h"

namespace penstock::topk {

struct Config {
  std::string softmax = "before";
  bool renormalise = false;
  KSchedule schedule;

  template <class V>
  void visit(V& v) {
    v("softmax", softmax,
      {.help = "before: over all E logits; after: over the k kept ones",
       .choices = {"before", "after"}});
    v("renormalise", renormalise, {.help = "divide the kept weights by their sum"});
    v("schedule", schedule, {.help = "k over the run"});
  }
  // Kept probabilities over their sum are the softmax over the kept logits.
  bool over_kept() const { return softmax == "after" || renormalise; }
  void refine(RouterTraits& traits) const { traits.unit_gates = over_kept(); }
};

/// before: weight = softmax(z)_e, kept where z is among the k largest, divided by the kept sum if
/// so asked.  after: weight = softmax over the kept logits.  Ties go to the lower expert index.
class TopK : public Selector {
 public:
  TopK(const RouterShape& shape, const Config& config) : shape_(shape), config_(config) {
    PENSTOCK_CHECK(shape.k == std::floor(shape.k) && shape.k >= 1 && shape.k <= shape.experts,
                   "model.router.k gives ", shape.k,
                   " active experts; selector 'topk' needs a whole number from 1 to ",
                   shape.experts);
    check_schedule(config.schedule, shape);
  }

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const std::int64_t k = scheduled_k(config_.schedule, shape_, context);
    return make_plan(scores.logits, ops::route_topk(scores.logits, k, config_.over_kept()));
  }

  double nominal_k(const RoutingContext& context) const override {
    return static_cast<double>(scheduled_k(config_.schedule, shape_, context));
  }

 private:
  RouterShape shape_;
  Config config_;
};

static const RegisterSelector<TopK, Config> registered{
    "topk",
    "the k experts of highest logit, weighted by softmax before or after the choice",
    "Shazeer et al., arXiv:1701.06538; dropless as MegaBlocks, arXiv:2211.15841",
    {.has_k = true, .takes_highest = true}};

}  // namespace penstock::topk
