// Noisy top-k gating's scorer: a plain router with Gaussian noise whose scale is learned per token
// and expert.
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/ops/ops.h"
#include "penstock/routers/draws.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/scorers/affine.h"

namespace penstock::noisy_linear {

enum class Start { zeros, normal };
constexpr std::array<std::string_view, 2> words(Start) { return {"zeros", "normal"}; }

struct Config {
  Start init = Start::zeros;
  double noise_floor = 0.01;

  template <class V>
  void visit(V& v) {
    v("init", init,
      {.help = "initial values of both matrices. zeros: even loads at the start, as published; "
               "normal: N(0, std)"});
    v("noise_floor", noise_floor,
      {.help = "constant added to the standard deviation of the noise", .min = 0});
  }
};

/// Training: logits = clean + n ⊙ scale,  clean = hidden · Wᵀ,
///   scale = softplus(hidden · W_nᵀ) + floor,  n ~ N(0, 1) for each token and expert.
/// Outside training: logits = clean.
/// Parameters: `weight` and `noise_weight` [E, d]. The floor comes from the code of HyperRouter's
/// authors (FastMoE's gate). The paper has no floor and no bias.
class NoisyLinear : public AffineScorer {
 public:
  NoisyLinear(const RouterShape& shape, const Config& config)
      : AffineScorer(shape, /*bias=*/false, /*frozen=*/false), config_(config) {
    noise_weight_ = register_parameter("noise_weight", at::empty({shape.experts, shape.d_model}));
  }

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override {
    const at::Tensor clean = logits(hidden);  // [T, E]
    if (!context.training) return {.logits = clean};
    const at::Tensor scale =
        at::softplus(ops::linear(hidden, noise_weight_)) + config_.noise_floor;  // [T, E]
    const at::Tensor noise = draw_normal(clean.sizes(), clean, context);
    return {.logits = clean + noise * scale, .clean_logits = clean, .noise_scale = scale};
  }
  void initialize(double std, const InitialDraws& draws) override {
    const double start = config_.init == Start::zeros ? 0 : std;
    AffineScorer::initialize(start, draws);
    draws.normal("noise_weight", noise_weight_, start);
  }
  std::set<std::string> rows_by_expert() const override { return {"weight", "noise_weight"}; }
  std::int64_t multiply_adds_per_token() const override { return 2 * weight_.numel(); }

 private:
  Config config_;
  at::Tensor noise_weight_;  // [E, d]
};

static const RegisterScorer<NoisyLinear, Config> registered{
    "noisy-linear",
    "one trained matrix, and when training noise of a trained scale",
    "Shazeer et al., arXiv:1701.06538, Eq. 4",
    {.order_matters = true, .stochastic = true, .foldable = true, .noisy = true}};

}  // namespace penstock::noisy_linear
