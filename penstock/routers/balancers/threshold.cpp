// Holds the number of active experts by a shift of their logits. The shift acts at once and lets
// inactive experts become active again. No loss; other balancers penalise gates.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "penstock/routers/balancers/logit_shift.h"
#include "penstock/routers/registry.h"

namespace penstock::threshold {

enum class Start { dense, target };
constexpr std::array<std::string_view, 2> words(Start) { return {"dense", "target"}; }

struct Config {
  Start start = Start::dense;
  ShiftConfig shift;

  template <class V>
  void visit(V& v) {
    v("start", start,
      {.help = "dense: no shift at the start, about half of the experts are active; target: a "
               "shift under which k of E experts are active for tokens of random direction"});
    shift.visit(v);
  }
  void refine(BalancerTraits& traits) const {
    traits.needs_matrix = traits.begins_at_k = start == Start::target;
  }
};

constexpr double kMostQuantile = 1 - 1e-6;  // highest k/E for the start: a shift of 4.75 σ

/// The shift of logit_shift.h, with the target k from the first step on.
/// Start "target": b = −‖w_e‖·Φ⁻¹(1 − k/E) − the scorer's own bias. Logits of tokens with unit
/// variance and random direction are N(0, ‖w_e‖²). At k = E a probability of 1e-6 replaces 0. No
/// loss, no gradient. Outside training the saved shifts are used.
class Threshold : public Balancer {
 public:
  Threshold(const RouterShape& shape, const Config& config)
      : config_(config),
        k_(shape.k),
        share_(shape.k / static_cast<double>(shape.experts)),
        shift_(shape, config.shift, *this) {}

  BalancerOutput balance(const Scores&, const Plan&, const RoutingContext&) override { return {}; }
  at::Tensor choice_bias(std::int64_t layer) const override { return shift_.of(layer); }

  void start(std::int64_t layer, const FoldedScorer& first) override {
    if (config_.start == Start::dense) return;
    const double off = std::min(1 - 2 * share_, 2 * kMostQuantile - 1);
    const at::Tensor quantile =
        at::erfinv(at::full({}, std::max(off, 1 - 2 * kMostQuantile), at::kDouble)).mul(M_SQRT2);
    at::Tensor bias = first.weight.to(at::kDouble).square().sum(1).sqrt();  // [E]
    bias.mul_(-quantile.item<double>());
    if (first.bias.defined()) bias.sub_(first.bias);
    shift_.of(layer).copy_(bias);
  }

  void after_step(const StepStatistics& step) override {
    const torch::NoGradGuard no_grad;
    shift_.move(step, k_);
  }

  std::map<std::string, double> state() const override {
    return {{"threshold_shift", shift_.mean()}};
  }

 private:
  Config config_;
  double k_, share_;  // k, k/E
  LogitShift shift_;
};

static const RegisterBalancer<Threshold, Config> registered{
    "threshold",
    "a shift of the logits, moved after each step so that k experts are on",
    "Penstock; the bias in the manner of Loss-Free Balancing, arXiv:2408.15664",
    {.needs_assignments = true,
     .steers_sparsity = true,
     .biases_choice = true,
     .state = {{.name = "threshold_shift",
                .title = "Shift of the logits",
                .caption = "Mean over layers and experts of what is added to a logit before its "
                           "sign switches the expert on.",
                .symbol = "shift"}}}};

}  // namespace penstock::threshold
