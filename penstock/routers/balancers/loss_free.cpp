// Balancing without a loss: each expert has a bias that follows the loads. The bias counts in the
// choice of experts, not in the gates.
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"

namespace penstock::loss_free {

struct Config {
  double rate = 0.001;

  template <class V>
  void visit(V& v) {
    v("rate", rate,
      {.help = "u, the change of each bias in a step; 0: biases are constant",
       .min = 0,
       .coefficient = true});
  }
};

/// Adds b_e to the scores of the choice. Each layer has its own biases. After each step
/// b_e += u·sign(mean_i c_i − c_e), with c the layer's assignments in all training passes of the
/// step. The bias of an expert with more than an even share falls. No loss, and no gradient.
/// `bias` [L, E] starts at 0 and is saved. Outside training the saved biases are used. The sign is
/// computed from whole counts, so that a bias does not move under an exactly even load.
class LossFree : public Balancer {
 public:
  LossFree(const RouterShape& shape, const Config& config) : rate_(config.rate) {
    bias_ = register_buffer("bias", at::zeros({shape.layers, shape.experts}));
  }

  BalancerOutput balance(const Scores&, const Plan&, const RoutingContext&) override { return {}; }
  at::Tensor choice_bias(std::int64_t layer) const override {
    PENSTOCK_ASSERT(layer < bias_.size(0), "layer ", layer, " of ", bias_.size(0));
    return bias_.select(0, layer);
  }

  void after_step(const StepStatistics& step) override {
    const torch::NoGradGuard no_grad;
    const std::int64_t experts = bias_.size(1);
    at::Tensor signs = at::zeros(bias_.sizes(), at::kFloat);
    for (std::size_t layer = 0; layer < step.expert_tokens.size(); ++layer) {
      std::int64_t total = 0, expert = 0;
      for (const std::int64_t tokens : step.expert_tokens[layer]) total += tokens;
      for (const std::int64_t tokens : step.expert_tokens[layer]) {
        const std::int64_t short_of = total - experts * tokens;
        signs[static_cast<std::int64_t>(layer)][expert++] = (short_of > 0) - (short_of < 0);
      }
    }
    bias_.add_(signs.to(bias_.options()), rate_);
  }

  std::map<std::string, double> state() const override {
    const at::Tensor range = bias_.amax(1) - bias_.amin(1);  // [L]
    return {{"bias_range", range.max().item<double>()}};
  }

 private:
  double rate_;
  at::Tensor bias_;  // [L, E] f32
};

static const RegisterBalancer<LossFree, Config> registered{
    "loss-free",
    "a bias in the choice of experts, moved against the loads after each step; no loss",
    "Loss-Free Balancing, arXiv:2408.15664, Algorithm 1; DeepSeek-V3, arXiv:2412.19437, Eq. 16",
    {.needs_assignments = true,
     .evens_loads = true,
     .biases_choice = true,
     .state = {{.name = "bias_range",
                .title = "Biases of the choice",
                .caption = "The highest bias of a layer’s experts less the lowest, of the layer "
                           "where they are furthest apart.",
                .symbol = "highest − lowest"}}}};

}  // namespace penstock::loss_free
