// The three kinds of parts, their registries, and the router of one layer that joins them.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/base/fields.h"
#include "penstock/base/registry.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/routers/routing.h"
#include "penstock/routers/step_statistics.h"
#include "penstock/routers/traits.h"

namespace penstock {

/// A plain matrix and bias that a linear scorer folds into: logits = hidden · weightᵀ + bias.
struct FoldedScorer {
  at::Tensor weight;  ///< [E, d]
  at::Tensor bias;    ///< [E] or undefined
};

/// Numbers of a scorer's parameters by purpose. Generated values that are never stored count as
/// `router`. Parameters that Scorer::share took over count for the first layer.
struct ScorerParameters {
  std::int64_t router = 0;     ///< the map from tokens to logits
  std::int64_t embedding = 0;  ///< the input of a network that generates the router
  std::int64_t network = 0;    ///< that network
};

/// Computes the logits of rows. There is one instance per layer.
class Scorer : public torch::nn::Module {
 public:
  using Traits = ScorerTraits;

  /// @param hidden [T, d] f32|f64, the normed input of the experts
  /// @return logits [T, E]
  virtual Scores score(const at::Tensor& hidden, const RoutingContext& context) = 0;
  /// Returns score() outside training as one matrix and bias, without gradient. The tensors may be
  /// the parameters themselves. A scorer without parameters returns f64. Throws AssertionError
  /// unless the resolved router has the trait foldable.
  virtual FoldedScorer fold() const;
  /// Draws the parameters: N(0, std²) unless the method's source says otherwise.
  virtual void initialize(double std, const InitialDraws& draws) = 0;
  /// Scales the parameters so that the logits of every token are multiplied by `factor`, in
  /// training too. Noise that the scorer adds keeps its size. Returns false, and changes nothing,
  /// if no parameter scales the logits. REQUIRES: factor > 0.
  virtual bool scale_logits(double factor);
  /// Takes over the parameters that this scorer shares with the scorer `first` of the model's first
  /// layer. The default shares nothing.
  virtual void share(Scorer& first);
  /// Multiply-adds for the logits of one token in training.
  virtual std::int64_t multiply_adds_per_token() const = 0;
  /// The number of values that a training pass keeps for a token besides its vector and its logits.
  /// A scorer returns it if it may be much larger than d. 0 leaves the values uncounted.
  virtual std::int64_t kept_per_token() const { return 0; }
  /// The numbers of parameters by purpose. By default all parameters count as `router`.
  virtual ScorerParameters parameters_by_part() const;
  /// The names of the parameters whose rows belong to experts, with an equal number of rows for
  /// each expert. Empty if experts have no parameters of their own.
  virtual std::set<std::string> rows_by_expert() const;
};

/// Makes a plan from scores. A selector has no state. There is one instance per layer.
class Selector {
 public:
  using Traits = SelectorTraits;

  virtual ~Selector() = default;
  /// Returns the plan for all T tokens. The router sets `Plan::k`.
  virtual Plan select(const Scores& scores, const RoutingContext& context) = 0;
  /// Pools segment_length rows (see the traits) into one row before scoring. Lory scores segment
  /// means. The default returns the rows unchanged.
  virtual at::Tensor rows(const at::Tensor& hidden, const RoutingContext& context);
  /// Whether a token outside training gets every expert that it chooses, whatever other tokens
  /// choose.
  virtual bool refuses_none() const;
  /// The target number of active experts per token in this step.
  virtual double nominal_k(const RoutingContext& context) const = 0;
};

/// A balancer's result for one layer's pass.
struct BalancerOutput {
  at::Tensor loss;  ///< scalar, differentiable; undefined if the balancer has no loss
  RoutingStatistics statistics;
};

/// Adds losses, or biases the choice of experts. It may keep state. The layers of a model share one
/// instance. Its buffers are saved with the model.
class Balancer : public torch::nn::Module {
 public:
  using Traits = BalancerTraits;

  virtual BalancerOutput balance(const Scores& scores, const Plan& plan,
                                 const RoutingContext& context) = 0;
  /// The bias that is added to the layer's scores for the choice of experts, [E] f32 without
  /// gradient, in training and outside; undefined: none. Only for a balancer with the trait
  /// biases_choice.
  virtual at::Tensor choice_bias(std::int64_t /*layer*/) const { return {}; }
  /// The bias outside training, if it differs from choice_bias().
  virtual at::Tensor evaluation_bias(std::int64_t layer) const { return choice_bias(layer); }
  /// Scores::thresholds of the layer, [E] f32 without gradient. Only for a balancer with the trait
  /// keeps_thresholds.
  virtual at::Tensor thresholds(std::int64_t /*layer*/) const { return {}; }
  /// The router calls it when a layer's scorer has its first parameters, with the matrix that the
  /// scorer folds into. Only for a balancer with the trait needs_matrix.
  virtual void start(std::int64_t /*layer*/, const FoldedScorer&) {}
  /// The trainer calls it once after every optimizer step.
  virtual void after_step(const StepStatistics&) {}
  /// The values to log each step, such as λ. Their names are those in the traits.
  virtual std::map<std::string, double> state() const { return {}; }
};

/// A part as the registry knows it.
template <class Part>
struct PartEntry {
  std::string summary;  ///< one sentence
  std::string source;   ///< paper and equation
  /// The traits under default options. ResolvedRouter and Router have the traits under the options
  /// in use.
  typename Part::Traits traits;
  std::vector<FieldDescription> fields;
  /// Throws Error that names the key if the options do not fit together or do not fit the shape.
  std::function<void(const RouterShape&, const ConfigNode& options)> check;
  /// Checks, and builds the part.
  std::function<std::shared_ptr<Part>(const RouterShape&, const ConfigNode& options)> make;
  /// Checks options and fills in the defaults.
  std::function<ConfigNode(const ConfigNode& options)> complete;
  /// The traits under these options.
  std::function<typename Part::Traits(const ConfigNode& options)> traits_under;
};

Registry<PartEntry<Scorer>>& scorer_registry();
Registry<PartEntry<Selector>>& selector_registry();
Registry<PartEntry<Balancer>>& balancer_registry();

/// A named combination of parts, with the options that the method fixes.
struct Method {
  std::string summary, source;
  std::string scorer, selector;
  std::vector<std::string> balancers;
  std::map<std::string, ConfigNode> options;  ///< by part: {"topk": {...}, "load-balance": {...}}
  double k = 0;  ///< active experts in its source; 0: the source has several values
};
/// All methods. `dense` has no parts: the model then builds no MoE layers.
const Registry<Method>& method_registry();

/// The router in a recipe: a method, and the parts and options that override it.
struct RouterConfig {
  std::string method = "topk";
  std::string scorer, selector;  ///< non-empty: override the method's
  std::optional<std::vector<std::string>> balancers;
  double k = 1;
  double init_std = 0;  ///< 0: the model's init_std
  double lr_scale = 1;  ///< read by the trainer
  std::map<std::string, ConfigNode> parts;

  template <class V>
  void visit(V& v) {
    v("method", method, {.help = "a named combination of parts; see `penstock routers`"});
    v("scorer", scorer, {.help = "scorer, in place of the method's"});
    v("selector", selector, {.help = "selector, in place of the method's"});
    v("balancers", balancers, {.help = "balancers, in place of the method's"});
    v("k", k, {.help = "nominal number of active experts per token, before granularity", .min = 0});
    v("init_std", init_std,
      {.help = "standard deviation of the router's initial weights; 0: the model's init_std",
       .min = 0});
    v("lr_scale", lr_scale,
      {.help = "factor of the learning rate for the scorers' parameters", .min = 0});
    v.rest(parts, "options of a part in use, by its name");
  }
  /// Whether there is no router: the method has no parts, and the recipe names none.
  bool dense() const;
};

/// The parts in use: names and options after method, overrides and options are joined.
struct ResolvedRouter {
  std::string scorer, selector;
  std::vector<std::string> balancers;
  std::map<std::string, ConfigNode> options;  ///< of every part in use, with defaults filled in
  RouterTraits traits;                        ///< of all parts together

  bool dense() const { return selector.empty(); }
};

/// Joins method and overrides. Throws Error for unknown names, for unknown or impossible options,
/// for options of parts that are not in use, and for parts that do not fit together.
ResolvedRouter resolve(const RouterConfig& config);

/// Throws Error unless k is above 0 and at most the number of experts. The error names both by
/// their keys.
void check_k(double k, double experts, const std::string& k_key, const std::string& experts_key);

/// Throws Error that names the key if the options of a part in use do not fit the shape of the
/// layers. Builds nothing. REQUIRES: not dense.
void check_options(const ResolvedRouter& router, const RouterShape& shape);

/// The reason why these parts cannot work together, or "" if they can.
std::string compatible(const std::string& scorer, const std::string& selector,
                       const std::vector<std::string>& balancers);

/// Makes the balancers of a model in the order of `router.balancers`. The model's layers share
/// them. The model registers them as modules, so that their buffers are saved.
std::vector<std::shared_ptr<Balancer>> make_balancers(const ResolvedRouter& router,
                                                      const RouterShape& shape);

std::shared_ptr<Scorer> make_scorer(const ResolvedRouter& router, const RouterShape& shape);
std::shared_ptr<Selector> make_selector(const ResolvedRouter& router, const RouterShape& shape);

/// The router of one layer. It has its own scorer and selector, and the model's balancers.
class Router : public torch::nn::Module {
 public:
  /// Parameters are not initialised.
  Router(const ResolvedRouter& config, const RouterShape& shape,
         std::vector<std::shared_ptr<Balancer>> balancers);
  /// See Scorer::initialize and Balancer::start.
  void initialize(double std, const InitialDraws& draws);

  /// Computes scores, plan, losses and statistics of one pass. Losses exist only if
  /// context.training. Statistics have "expert_tokens" [E] i64 unless the plan merges.
  /// @param hidden [T, d]
  RoutingResult route(const at::Tensor& hidden, const RoutingContext& context);

  Scorer& scorer() { return *scorer_; }
  /// Replaces the layer's scorer by one that wraps it.
  void wrap_scorer(const std::function<std::shared_ptr<Scorer>(std::shared_ptr<Scorer>)>& around);
  const Selector& selector() const { return *selector_; }
  const RouterTraits& traits() const { return traits_; }

 private:
  at::Tensor choice_bias(bool training) const;
  at::Tensor thresholds() const;
  void add_losses(RoutingResult& result, const RoutingContext& context);

  std::string scorer_name_;
  std::vector<std::string> balancer_names_;  // of balancers_
  std::shared_ptr<Scorer> scorer_;
  std::shared_ptr<Selector> selector_;
  std::vector<std::shared_ptr<Balancer>> balancers_;
  RouterTraits traits_;
  std::int64_t layer_;
};

/// Registers a part: `static const RegisterScorer<Linear, LinearConfig> registered{"linear", ...}`.
/// The class is constructed from (shape, config). The config may have two functions:
/// `void check(const RouterShape&) const` throws Error if the config does not fit the shape;
/// `void refine(ScorerTraits&) const`, with the traits of the part's kind, changes the traits that
/// depend on options.
template <class Base, Registry<PartEntry<Base>>& (*registry)(), class Class, class Config>
struct RegisterPart {
  using Traits = typename Base::Traits;
  RegisterPart(const std::string& name, const std::string& summary, const std::string& source,
               Traits traits) {
    const auto read = [name](const ConfigNode& options) {
      return read_config<Config>(options, "model.router." + name);
    };
    registry().add(name,
                   {summary, source, traits, describe_config<Config>(),
                    [read](const RouterShape& shape, const ConfigNode& options) {
                      check(read(options), shape);
                    },
                    [read](const RouterShape& shape, const ConfigNode& options) {
                      const Config config = read(options);
                      check(config, shape);
                      return std::static_pointer_cast<Base>(std::make_shared<Class>(shape, config));
                    },
                    [read](const ConfigNode& options) { return write_config(read(options)); },
                    [read, traits](const ConfigNode& options) {
                      Traits refined = traits;
                      refine(read(options), refined);
                      return refined;
                    }});
  }

 private:
  static void check(const Config& config, const RouterShape& shape) {
    if constexpr (requires { config.check(shape); }) config.check(shape);
  }
  static void refine(const Config& config, Traits& traits) {
    if constexpr (requires { config.refine(traits); }) config.refine(traits);
  }
};
template <class Class, class Config>
using RegisterScorer = RegisterPart<Scorer, scorer_registry, Class, Config>;
template <class Class, class Config>
using RegisterSelector = RegisterPart<Selector, selector_registry, Class, Config>;
template <class Class, class Config>
using RegisterBalancer = RegisterPart<Balancer, balancer_registry, Class, Config>;

}  // namespace penstock
