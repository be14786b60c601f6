// Holding the number of active experts by a shift of their logits, which answers at once and lets
// experts that are off come back. No loss; what presses gates down is another balancer's.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/routers/router.h"

namespace penstock::threshold {

enum class Start { dense, target };
constexpr std::array<std::string_view, 2> words(Start) { return {"dense", "target"}; }

enum class By { model, layer, expert };
constexpr std::array<std::string_view, 3> words(By) { return {"model", "layer", "expert"}; }

struct Config {
  Start start = Start::dense;
  By by = By::model;
  double rate = 0.05;
  double revive = 0.02;

  template <class V>
  void visit(V& v) {
    v("start", start,
      {.help =
           "dense: no shift, about half of the experts on; target: the shift under which k of E "
           "are on for tokens that point anywhere"});
    v("by", by,
      {.help = "whose active experts are held at k of E: all together, or each by itself"});
    v("rate", rate,
      {.help = "u: a step's shift for an error of 1 in ln(active experts / k)", .min = 0});
    v("revive", revive,
      {.help = "an expert with less than this part of its even load rises by u more each step",
       .min = 0,
       .max = 1});
  }
  void refine(BalancerTraits& traits) const { traits.needs_matrix = start == Start::target; }
};

/// Adds b_e to the logits, by layer. After each step, with r = active experts / k of the model, the
/// layer or the expert (over k/E there):
///   b_e −= u·clamp(ln r, −1, 1),  and b_e += u where the expert has less than `revive`·T·k/E
///   tokens.
/// Start "target": b = −‖w_e‖·Φ⁻¹(1 − k/E) − the scorer's own bias, as logits of tokens of unit
/// variance that point anywhere are N(0, ‖w_e‖²). Moved by whole counts; no loss, no gradient. A
/// model is used with the shifts that it has.
class Threshold : public Balancer {
 public:
  Threshold(const RouterShape& shape, const Config& config)
      : config_(config), share_(shape.k / static_cast<double>(shape.experts)) {
    bias_ = register_buffer("bias", at::zeros({shape.layers, shape.experts}));
  }

  BalancerOutput balance(const Scores&, const Plan&, const RoutingContext&) override { return {}; }
  at::Tensor choice_bias(std::int64_t layer) const override {
    PENSTOCK_ASSERT(layer < bias_.size(0), "layer ", layer, " of ", bias_.size(0));
    return bias_.select(0, layer);
  }

  void start(std::int64_t layer, const FoldedScorer& first) override {
    if (config_.start == Start::dense) return;
    const at::Tensor quantile = at::erfinv(at::full({}, 1 - 2 * share_, at::kDouble)).mul(M_SQRT2);
    at::Tensor bias = first.weight.to(at::kDouble).square().sum(1).sqrt();  // [E]
    bias.mul_(-quantile.item<double>());
    if (first.bias.defined()) bias.sub_(first.bias);
    bias_.select(0, layer).copy_(bias);
  }

  void after_step(const StepStatistics& step) override {
    const torch::NoGradGuard no_grad;
    at::Tensor shifts = at::zeros(bias_.sizes(), at::kFloat);
    for (std::size_t layer = 0; layer < step.tokens.size(); ++layer)
      if (step.tokens[layer] > 0) write_shifts(step, layer, shifts[static_cast<int>(layer)]);
    bias_.add_(shifts.to(bias_.options()));
  }

  std::map<std::string, double> state() const override {
    return {{"threshold_shift", bias_.mean().item<double>()}};
  }

 private:
  static double clamped_log(double ratio) {
    return std::log(std::clamp(ratio, std::exp(-1.0), std::exp(1.0)));
  }
  /// @param out  [E]
  void write_shifts(const StepStatistics& step, std::size_t layer, const at::Tensor& out) const {
    const double even = static_cast<double>(step.tokens[layer]) * share_;
    const double share = config_.by == By::model
                             ? 1 - step.sparsity
                             : step.active(layer) / static_cast<double>(bias_.size(1));
    float* shift = out.data_ptr<float>();
    for (const std::int64_t count : step.expert_tokens[layer]) {
      const double load = static_cast<double>(count) / even;
      const double error = clamped_log(config_.by == By::expert ? load : share / share_);
      *shift++ = static_cast<float>(config_.rate * ((load < config_.revive ? 1 : 0) - error));
    }
  }

  Config config_;
  double share_;     // k/E
  at::Tensor bias_;  // [L, E] f32
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
