// ReMoE's sparsity control: an L1 penalty on the gates whose weight λ follows the measured
// sparsity.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/routers/balancers/held_sparsity.h"
#include "penstock/routers/balancers/load_fraction.h"
#include "penstock/routers/balancers/reductions.h"
#include "penstock/routers/registry.h"

namespace penstock::adaptive_l1 {

enum class Layers { sum, mean };
constexpr std::array<std::string_view, 2> words(Layers) { return {"sum", "mean"}; }

enum class Equality { code, paper };
constexpr std::array<std::string_view, 2> words(Equality) { return {"code", "paper"}; }

enum class Controller { paper, log_proportional, hold };
constexpr std::array<std::string_view, 3> words(Controller) {
  return {"paper", "log-proportional", "hold"};
}

struct Config {
  double initial = 1e-8;
  double factor = 1.2;
  bool load_balanced = true;
  std::int64_t f_power = 1;
  Layers layers = Layers::sum;
  Equality equality = Equality::code;
  Controller controller = Controller::paper;
  double width = 0.15;
  double damping = 1;
  bool per_layer = false;
  double floor = 0;
  double ceiling = 0;
  HoldConfig hold;
  LoadScope load;

  template <class V>
  void visit(V& v) {
    v("initial", initial, {.help = "λ at step 0", .min = 0});
    v("factor", factor, {.help = "factor that multiplies or divides λ in each step", .min = 1});
    v("load_balanced", load_balanced, {.help = "weight each expert's gates by its load f"});
    v("f_power", f_power, {.help = "power of the load f; 1: f, 2: f²", .min = 1, .max = 2});
    v("layers", layers, {.help = "sum or mean of the loss over layers"});
    v("equality", equality,
      {.help = "λ when sparsity equals the target; code: divide it, paper: keep it"});
    v("controller", controller,
      {.help = "paper: each step changes λ by the whole factor; log-proportional: by "
               "factor^(e/width) with the error e = ln(active experts / k), and e also acts on λ "
               "at once; hold: a shift of the logits holds k, and λ follows the shift, whatever "
               "the values of initial and factor"});
    v("width", width,
      {.help = "log-proportional: smallest error at which a step changes λ by the whole factor",
       .min = 1e-6});
    v("damping", damping,
      {.help = "log-proportional: the loss is multiplied by λ·(active experts / k)^damping",
       .min = 0,
       .max = 8});
    v("per_layer", per_layer,
      {.help = "a separate λ for each layer, controlled by that layer's experts"});
    v("floor", floor, {.help = "smallest λ; 0: no bound", .min = 0});
    v("ceiling", ceiling, {.help = "largest λ; 0: no bound", .min = 0});
    hold.visit(v);
    load.visit(v);
  }
  void check(const RouterShape& shape) const {
    load.check("adaptive-l1", shape.experts);
    PENSTOCK_CHECK(ceiling == 0 || ceiling >= floor, "model.router.adaptive-l1.ceiling = ", ceiling,
                   " is below the floor ", floor);
  }
  void refine(BalancerTraits& traits) const {
    load.refine(traits);
    traits.biases_choice = controller == Controller::hold;
  }
};

/// loss = λ/T·Σ_e f_e^p·Σ_t R_te,  f_e = E·c_e/(kT) without gradient (1 unless load-balanced).
/// For p = 1 this is λ·E/(kT²)·Σ_e c_e Σ_t R_te. With the scope sequence each sequence has its own
/// f, over its own tokens. Layers are summed as in the authors' code; the paper's Eq. 9-10 divide
/// by the number of layers. Gates of idle experts (Plan::idle) get no gradient.
/// paper: after each step λ is multiplied by the factor α if the sparsity is below 1 − k/E, and
/// divided by α if it is above.
/// log-proportional: ln λ += ln α·clamp(e/width, −1, 1) with e = ln(active experts / k). This is a
/// PI controller of ln λ; the damping is its proportional part. A loop of two integrators (λ, and
/// the logits that follow λ) needs a proportional part.
/// hold: held_sparsity.h gives the λ of each layer, which has no state.
/// Floor and ceiling hold from the first step on. They bound λ while the sparsity does not respond
/// to it, for example while all experts of a layer are off. `l_reg`, the loss without λ, is logged
/// beside the loss. Under log-proportional the loss is λ·l_reg times the proportional part.
class AdaptiveL1 : public Balancer {
 public:
  AdaptiveL1(const RouterShape& shape, const Config& config)
      : config_(config),
        k_(shape.k),
        experts_(static_cast<double>(shape.experts)),
        layers_(shape.layers) {
    if (config.controller == Controller::hold) {
      hold_.emplace(shape, config.hold, *this);
      return;
    }
    std::vector<std::int64_t> sizes;
    if (config.per_layer) sizes.push_back(shape.layers);
    lambda_ = register_buffer("lambda", at::full(sizes, bounded(config.initial), at::kFloat));
    if (config.controller == Controller::log_proportional)
      error_ = register_buffer("error", at::zeros(sizes, at::kFloat));
  }

  BalancerOutput balance(const Scores&, const Plan& plan, const RoutingContext& context) override {
    const double lambda = weight(plan, context.layer);
    BalancerOutput out;
    if (hold_)  // statistics are summed over layers; the log then has the mean over layers
      out.statistics["lambda"] = at::full({}, lambda / static_cast<double>(layers_), at::kDouble);
    const auto tokens = static_cast<double>(std::max<std::int64_t>(1, plan.tokens));
    const double layers =
        config_.layers == Layers::mean && !hold_ ? static_cast<double>(layers_) : 1;
    at::Tensor gates = gate_sums(plan, config_.load.groups(plan, context));  // [G, E]
    if (config_.load_balanced) {
      at::Tensor load = load_fraction(plan, config_.load, context);  // [G, E]
      if (config_.f_power == 2) load = load.square();
      gates = gates * load.to(gates.options());
    }
    // A leak is to open an idle expert. The loss would press the expert's logits further down.
    if (plan.idle.defined()) gates = gates.masked_fill(plan.idle.to(gates.device()), 0);
    const at::Tensor sum = gates.sum();
    out.statistics["l_reg"] = sum.detach() / (tokens * layers);
    if (!hold_ || lambda != 0) out.loss = sum * (lambda / tokens / layers);
    return out;
  }

  at::Tensor choice_bias(std::int64_t layer) const override {
    return hold_ ? hold_->shift().of(layer) : at::Tensor();
  }
  at::Tensor evaluation_bias(std::int64_t layer) const override {
    return hold_ ? hold_->mean_shift(layer) : at::Tensor();
  }

  void after_step(const StepStatistics& step) override {
    const torch::NoGradGuard no_grad;
    if (hold_) return hold_->after_step(step);
    std::vector<float> lambdas, errors;
    for (const Steered& one : state_now()) {
      const double sparsity =
          config_.per_layer ? 1 - step.active(lambdas.size()) / experts_ : step.sparsity;
      const double error = std::log(std::max(1 - sparsity, kLeast) * experts_ / k_);
      lambdas.push_back(moved(static_cast<float>(one.lambda), sparsity, error));
      errors.push_back(static_cast<float>(std::clamp(error, -kMostError, kMostError)));
    }
    lambda_.copy_(torch::tensor(lambdas).view(lambda_.sizes()));
    if (error_.defined()) error_.copy_(torch::tensor(errors).view(error_.sizes()));
  }

  std::map<std::string, double> state() const override {
    if (hold_) return {{"logit_shift", hold_->shift().mean()}};
    double sum = 0;
    const auto& now = state_now();
    if (now.size() == 1) return {{"lambda", now[0].lambda}};
    for (const Steered& one : now) sum += std::log(std::max(one.lambda, 1e-45));
    return {{"lambda", std::exp(sum / static_cast<double>(now.size()))}};
  }

 private:
  static constexpr double kLeast = 1e-9;     // smallest share of active experts in the logarithm
  static constexpr double kMostError = 1.5;  // largest error in the proportional part

  struct Steered {
    double lambda = 0;
    double pressure = 0;  // the weight of the loss
  };

  /// The weight of the layer's loss in a pass.
  double weight(const Plan& plan, std::int64_t layer) const {
    if (hold_) return hold_->weight(plan, layer);
    return state_now().at(config_.per_layer ? static_cast<std::size_t>(layer) : 0).pressure;
  }

  float bounded(double lambda) const {
    if (config_.ceiling > 0) lambda = std::min(lambda, config_.ceiling);
    return static_cast<float>(std::max(lambda, config_.floor));
  }

  /// λ after a step, computed in fp32, in which λ is saved.
  float moved(float lambda, double sparsity, double error) const {
    const double target = 1 - k_ / experts_;
    const auto factor = static_cast<float>(config_.factor);
    if (config_.controller == Controller::log_proportional) {
      const double share = std::clamp(error / config_.width, -1.0, 1.0);
      return bounded(lambda * static_cast<float>(std::pow(config_.factor, share)));
    }
    if (sparsity == target && config_.equality == Equality::paper) return lambda;
    return bounded(sparsity < target ? lambda * factor : lambda / factor);
  }

  /// The state of each layer, or one state for all layers. It is read from its device only if the
  /// buffer was written or moved since the last read.
  const std::vector<Steered>& state_now() const {
    const std::pair<const void*, std::int64_t> now(lambda_.data_ptr(), lambda_._version());
    if (now == read_from_) return read_;
    const at::Tensor lambdas = lambda_.to(at::kCPU, at::kDouble).flatten();
    const at::Tensor errors =
        error_.defined() ? error_.to(at::kCPU, at::kDouble).flatten() : at::zeros_like(lambdas);
    read_.clear();
    for (std::int64_t i = 0; i < lambdas.numel(); ++i) {
      const double lambda = lambdas.data_ptr<double>()[i];
      const double error = errors.data_ptr<double>()[i];
      read_.push_back({lambda, lambda * std::exp(config_.damping * error)});
    }
    read_from_ = now;
    return read_;
  }

  Config config_;
  double k_, experts_;
  std::int64_t layers_;
  std::optional<HeldSparsity> hold_;  // if set, no member below is used
  at::Tensor lambda_;                 // scalar or [L] f32
  at::Tensor error_;  // e of the last step, scalar or [L] f32; defined under log-proportional only
  mutable std::vector<Steered> read_;
  mutable std::pair<const void*, std::int64_t> read_from_;
};

static const RegisterBalancer<AdaptiveL1, Config> registered{
    "adaptive-l1",
    "L1 penalty on the gates, its weight steered to the target sparsity",
    "ReMoE, arXiv:2412.14711, Eq. 7-11",
    {.needs_assignments = true,
     .steers_sparsity = true,
     .state = {{.name = "l_reg",
                .title = "Regulariser L_reg",
                .caption = "Mean over tokens of the gates’ sum, each weighted by its expert’s "
                           "load where loads are balanced, summed over layers (or their mean, as "
                           "configured), before the weight λ.",
                .symbol = "L_reg",
                .logarithmic = true,
                .unweighted_loss = true},
               {.name = "lambda",
                .title = "Regulariser’s weight λ",
                .caption = "Raised by the factor α after every step that is less sparse than the "
                           "target, and lowered by it otherwise.",
                .symbol = "λ",
                .logarithmic = true},
               {.name = "logit_shift",
                .title = "Shift of the logits that holds k",
                .caption = "Mean over layers and experts of what the controller \"hold\" adds to a "
                           "logit before its sign switches the expert on.",
                .symbol = "shift"}}}};

}  // namespace penstock::adaptive_l1
