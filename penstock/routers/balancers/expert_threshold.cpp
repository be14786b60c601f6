// Thresholds by which experts choose tokens outside training, each token independently of others.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"

namespace penstock::expert_threshold {

enum class Evaluation { threshold, batch };
constexpr std::array<std::string_view, 2> words(Evaluation) { return {"threshold", "batch"}; }

struct Config {
  Evaluation evaluation = Evaluation::threshold;
  double rate = 0.05;

  template <class V>
  void visit(V& v) {
    v("evaluation", evaluation,
      {.help = "how an expert takes tokens outside training. threshold: each token whose score "
               "reaches the expert's threshold, which is causal; batch: as in training, the best "
               "tokens of the whole pass, including later tokens and other texts"});
    v("rate", rate,
      {.help = "weight of a new step in the threshold's running mean; the first steps all weigh "
               "the same",
       .min = 1e-4,
       .max = 1});
  }
  void refine(BalancerTraits& traits) const {
    traits.keeps_thresholds = evaluation == Evaluation::threshold;
  }
};

/// θ_e of a layer is the running mean over steps of the lowest score for which expert e took a
/// token in training. In the n-th step in which the layer has tokens,
///   θ_e ← (1 − w)·θ_e + w·m_e,   w = max(1/n, rate).
/// m_e is the mean over the step's tokens of the lowest score in their micro-batch
/// (StepStatistics::lowest_taken), so it does not depend on the number of ranks. Before the first
/// step θ_e = 1/E, the score of an even choice. No loss, no gradient.
/// Expert Threshold Routing (arXiv:2603.11535) keeps such a moving average and also trains with it.
/// Here training chooses as Expert Choice does, and thresholds are used in evaluation and
/// generation alone. Mixture-of-Depths (arXiv:2404.02258, section 3.5) trains a predictor of the
/// choice for the same purpose.
class ExpertThreshold : public Balancer {
 public:
  ExpertThreshold(const RouterShape& shape, const Config& config) : config_(config) {
    threshold_ = register_buffer("threshold",
                                 at::full({shape.layers, shape.experts},
                                          1.0 / static_cast<double>(shape.experts), at::kFloat));
    steps_ = register_buffer("steps", at::zeros({shape.layers}, at::kFloat));
  }

  BalancerOutput balance(const Scores&, const Plan&, const RoutingContext&) override { return {}; }

  at::Tensor thresholds(std::int64_t layer) const override {
    PENSTOCK_ASSERT(layer < threshold_.size(0), "layer ", layer, " of ", threshold_.size(0));
    if (config_.evaluation == Evaluation::batch) return {};
    return threshold_.select(0, layer);
  }

  void after_step(const StepStatistics& step) override {
    const torch::NoGradGuard no_grad;
    for (std::size_t layer = 0; layer < step.lowest_taken.size(); ++layer) {
      if (step.lowest_taken[layer].empty()) continue;
      const auto index = static_cast<std::int64_t>(layer);
      const double counted = steps_[index].item<double>() + 1;
      const double weight = std::max(1 / counted, config_.rate);
      at::Tensor row = threshold_.select(0, index);
      const at::Tensor moved = row.to(at::kCPU, at::kDouble) * (1 - weight) +
                               torch::tensor(step.lowest_taken[layer], at::kDouble) * weight;
      row.copy_(moved);
      steps_.select(0, index).fill_(std::min(counted, kMostSteps));
    }
  }

  std::map<std::string, double> state() const override {
    return {{"expert_threshold", threshold_.mean().item<double>()}};
  }

 private:
  static constexpr double kMostSteps = 1e6;  // w is the rate long before; f32 is exact up to here

  Config config_;
  at::Tensor threshold_;  // [L, E] f32
  at::Tensor steps_;      // [L] f32, the number of steps that moved the layer's thresholds
};

static const RegisterBalancer<ExpertThreshold, Config> registered{
    "expert-threshold",
    "the score from which on an expert takes a token outside training; no loss",
    "after Expert Threshold Routing, arXiv:2603.11535",
    {.needs_assignments = true,
     .keeps_thresholds = true,
     .state = {{.name = "expert_threshold",
                .title = "Thresholds of the experts",
                .caption = "Mean over layers and experts of the score from which on an expert "
                           "takes a token outside training: the running mean of the lowest score "
                           "for which it took one in training.",
                .symbol = "score"}}}};

}  // namespace penstock::expert_threshold
