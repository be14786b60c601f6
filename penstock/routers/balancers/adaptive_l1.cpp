// ReMoE's sparsity control: an L1 penalty on the gates whose weight λ follows the measured
// sparsity.
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "penstock/routers/balancers/load_fraction.h"
#include "penstock/routers/balancers/reductions.h"
#include "penstock/routers/router.h"

namespace penstock::adaptive_l1 {

enum class Layers { sum, mean };
constexpr std::array<std::string_view, 2> words(Layers) { return {"sum", "mean"}; }

enum class Equality { code, paper };
constexpr std::array<std::string_view, 2> words(Equality) { return {"code", "paper"}; }

struct Config {
  double initial = 1e-8;
  double factor = 1.2;
  bool load_balanced = true;
  std::int64_t f_power = 1;
  Layers layers = Layers::sum;
  Equality equality = Equality::code;
  double floor = 0;
  LoadScope load;

  template <class V>
  void visit(V& v) {
    v("initial", initial, {.help = "λ at step 0", .min = 0});
    v("factor", factor, {.help = "what λ is multiplied or divided by each step", .min = 1});
    v("load_balanced", load_balanced, {.help = "weight each expert's gates by its load f"});
    v("f_power", f_power, {.help = "1: by f, 2: by f²", .min = 1, .max = 2});
    v("layers", layers, {.help = "sum over layers, or their mean"});
    v("equality", equality, {.help = "at exactly the target: code divides λ, paper holds it"});
    v("floor", floor, {.help = "smallest λ; 0 for none", .min = 0});
    load.visit(v);
  }
  void refine(BalancerTraits& traits) const { load.refine(traits); }
};

/// loss = λ/T·Σ_e f_e^p·Σ_t R_te,  f_e = E·c_e/(kT) without gradient (1 unless load-balanced): for
/// p = 1 that is λ·E/(kT²)·Σ_e c_e Σ_t R_te. By sequence each has an f of its own, over its tokens.
/// Layers are summed as in the authors' code; the paper's
/// Eq. 9-10 divide by the number of layers. After each step: sparsity below 1 − k/E multiplies λ by
/// the factor, above divides.
class AdaptiveL1 : public Balancer {
 public:
  AdaptiveL1(const RouterShape& shape, const Config& config)
      : config_(config),
        target_(1 - shape.k / static_cast<double>(shape.experts)),
        layers_(static_cast<double>(shape.layers)) {
    config_.load.check("adaptive-l1", shape.experts);
    lambda_ = register_buffer("lambda", at::full({}, config.initial, at::kFloat));
  }

  BalancerOutput balance(const Scores&, const Plan& plan, const RoutingContext& context) override {
    double scale = lambda() / static_cast<double>(std::max<std::int64_t>(1, plan.tokens));
    if (config_.layers == Layers::mean) scale /= layers_;
    at::Tensor gates = gate_sums(plan, config_.load.groups(plan, context));  // [G, E]
    if (config_.load_balanced) {
      at::Tensor load = load_fraction(plan, config_.load, context);  // [G, E]
      if (config_.f_power == 2) load = load.square();
      gates = gates * load.to(gates.options());
    }
    const at::Tensor loss = gates.sum() * scale;
    return {.loss = loss};
  }

  void after_step(const StepStatistics& step) override {
    if (step.sparsity == target_ && config_.equality == Equality::paper) return;
    // In fp32, the precision that is saved.
    const auto factor = static_cast<float>(config_.factor);
    const auto now = static_cast<float>(lambda());
    const float next = step.sparsity < target_ ? now * factor : now / factor;
    lambda_.fill_(std::max(next, static_cast<float>(config_.floor)));
  }

  std::map<std::string, double> state() const override { return {{"lambda", lambda()}}; }

 private:
  /// Read from its device again only when it was written or moved.
  double lambda() const {
    const std::pair<const void*, std::int64_t> now(lambda_.data_ptr(), lambda_._version());
    if (now != read_from_) {
      read_ = lambda_.item<double>();
      read_from_ = now;
    }
    return read_;
  }

  Config config_;
  double target_, layers_;
  at::Tensor lambda_;  // scalar f32
  mutable double read_ = 0;
  mutable std::pair<const void*, std::int64_t> read_from_;
};

static const RegisterBalancer<AdaptiveL1, Config> registered{
    "adaptive-l1",
    "L1 penalty on the gates, its weight steered to the target sparsity",
    "ReMoE, arXiv:2412.14711, Eq. 7-11",
    {.needs_assignments = true,
     .steers_sparsity = true,
     .state = {{.name = "lambda",
                .title = "Regulariser’s weight λ",
                .caption = "Raised by the factor α after every step that is less sparse than the "
                           "target, and lowered by it otherwise.",
                .symbol = "λ",
                .logarithmic = true}}}};

}  // namespace penstock::adaptive_l1
