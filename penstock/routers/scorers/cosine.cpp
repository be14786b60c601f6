// Routing scores on a low-dimensional sphere (X-MoE): logits depend on the angle between token and
// expert, not on their lengths.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/ops/ops.h"
#include "penstock/routers/registry.h"

namespace penstock::cosine {

struct Config {
  std::int64_t dimension = 0;
  double temperature = 0.3;
  bool learn_temperature = true;
  bool normalise_token = true;

  template <class V>
  void visit(V& v) {
    v("dimension", dimension,
      {.help = "dimension of the space that tokens are projected to; 0: half the number of experts",
       .min = 0,
       .max = 65536});
    v("temperature", temperature, {.help = "initial value of the temperature τ", .min = 1e-4});
    v("learn_temperature", learn_temperature, {.help = "train the temperature, as log τ"});
    v("normalise_token", normalise_token,
      {.help = "normalise the projected token; false: scores grow with its norm, as in "
               "torchscale's code"});
  }
};

/// logits = (P h / |P h|) · (v_e / |v_e|) / τ,  P [dimension, d], v [E, dimension], τ = exp(log τ).
/// P ~ N(0, std²). v starts orthogonal with gain 0.32 (torchscale). Only its directions matter to
/// the logits.
/// A token whose projection is 0 has logits 0.
/// The temperature's logarithm is stored, so that the temperature stays positive. It starts at 0.3,
/// as in X-MoE under softmax gates (section 4.1). The balance losses' P divides the cosines by this
/// start τ₀ and not by the learned τ (Eq. 9).
/// The lengths |v_e| are free here. X-MoE holds them at 0.1, and torchscale's code sets them to 1.5
/// before each pass. A step of Adam turns a longer v_e by a smaller angle.
class Cosine : public Scorer {
 public:
  Cosine(const RouterShape& shape, const Config& config) : config_(config) {
    const std::int64_t width =
        config.dimension > 0 ? config.dimension : std::max<std::int64_t>(1, shape.experts / 2);
    projection_ = register_parameter("projection", at::empty({width, shape.d_model}));
    experts_ = register_parameter("experts", at::empty({shape.experts, width}));
    log_temperature_ = register_parameter(
        "log_temperature", at::full({}, std::log(config.temperature)), config.learn_temperature);
  }

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override {
    at::Tensor token = ops::linear(hidden, projection_);  // [T, width]
    if (config_.normalise_token) token = unit(token);
    const at::Tensor cosines = ops::linear(token, unit(experts_));  // [T, E]
    Scores scores{.logits = cosines * (-log_temperature_).exp()};
    if (context.training && config_.learn_temperature)
      scores.clean_logits = cosines / config_.temperature;
    return scores;
  }
  void initialize(double std, const InitialDraws& draws) override {
    torch::NoGradGuard no_grad;
    draws.normal("projection", projection_, std);
    const std::int64_t rows = experts_.size(0), columns = experts_.size(1);
    const at::Tensor matrix =
        at::empty({std::max(rows, columns), std::min(rows, columns)}, at::kDouble);
    draws.normal("experts", matrix, 1);
    const auto [q, r] = at::linalg_qr(matrix);
    const at::Tensor basis = q * r.diagonal().sign();  // uniform over orthogonal matrices
    experts_.copy_((rows < columns ? basis.t() : basis) * 0.32);
    log_temperature_.fill_(std::log(config_.temperature));
  }
  bool scale_logits(double factor) override {
    torch::NoGradGuard no_grad;
    log_temperature_.sub_(std::log(factor));
    return true;
  }
  std::set<std::string> rows_by_expert() const override { return {"experts"}; }
  /// Values kept: the token on the sphere, the projected token, the square and the length of the
  /// latter. With a trained τ also the cosines.
  std::int64_t kept_per_token() const override {
    const std::int64_t width = projection_.size(0);
    return (config_.normalise_token ? 2 * width + 2 : width) +
           (config_.learn_temperature ? experts_.size(0) : 0);
  }
  std::int64_t multiply_adds_per_token() const override {
    return projection_.numel() + experts_.numel();
  }

 private:
  static at::Tensor unit(const at::Tensor& rows) {
    return rows / rows.square().sum(1, /*keepdim=*/true).clamp_min(1e-24).sqrt();
  }

  Config config_;
  at::Tensor projection_;       // [width, d]
  at::Tensor experts_;          // [E, width]
  at::Tensor log_temperature_;  // scalar
};

static const RegisterScorer<Cosine, Config> registered{
    "cosine",
    "cosine between projected token and expert vector, over a learned temperature",
    "X-MoE, arXiv:2204.09179, section 3; torchscale's code",
    {}};

}  // namespace penstock::cosine
