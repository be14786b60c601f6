// The three kinds of parts, their registries, and the router of one layer that joins them.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/base/fields.h"
#include "penstock/base/registry.h"
#include "penstock/routers/routing.h"

namespace penstock {

/// Properties that decide what fits together and what must hold; never names. The registry's
/// describe a part under its default options; ResolvedRouter's and Router's, under those in use.
struct RouterTraits {
  bool causal = true;          ///< a token's plan does not depend on later tokens
  bool order_matters = false;  ///< permuting tokens does not just permute the plan
  bool stochastic = false;     ///< draws random numbers when training
  bool needs_token_ids = false;
  bool merges = false;    ///< the plan blends expert weights per segment
  bool trainable = true;  ///< (scorer) has trained parameters; (selector) passes gradients on
  bool foldable = false;  ///< (scorer) can become one matrix and bias
  bool has_k = false;     ///< (selector) k can be set
  bool variable_active = false;  ///< (selector) the number of active experts is not fixed by k
  bool even_loads = false;      ///< (selector) experts get equally many tokens, whatever the logits
  bool ignores_logits = false;  ///< (selector) the plan does not use the logits
  bool takes_highest = false;   ///< (selector) a token asks for the experts of its k highest logits
  bool drops = false;           ///< (selector) may refuse a token an expert that it asked for
  bool unit_gates = false;      ///< (selector) a token's gates sum to one, but for those refused
  bool homogeneous_gates = false;  ///< (selector) f times the logits, f > 0, give f times the gates
  bool no_logits = false;     ///< (scorer) has nothing to say; for selectors that ignore logits
  bool noisy = false;         ///< (scorer) adds noise of a known scale when training
  bool needs_logits = false;  ///< (balancer) its loss acts on the logits themselves
  bool evens_loads = false;   ///< (balancer) pulls uneven loads together
  bool needs_variable_active = false;  ///< (balancer) only makes sense with variable_active
  bool needs_assignments = false;      ///< (balancer) cannot work on a merging plan
  bool needs_noisy_choice = false;     ///< (balancer) reads the chance that noise changes a choice
  /// Passes that one training step makes over a batch, each with draws of its own (THOR: 2). What
  /// is done with the second is the trainer's matter.
  int forward_passes = 1;
};

/// A plain matrix and bias that a linear scorer folds into: logits = hidden · weightᵀ + bias.
struct FoldedScorer {
  at::Tensor weight;  ///< [E, d]
  at::Tensor bias;    ///< [E] or undefined
};

/// Turns rows into logits. One instance per layer.
class Scorer : public torch::nn::Module {
 public:
  /// @param hidden [T, d] f32|f64, normed input of the experts
  /// @return logits [T, E]
  virtual Scores score(const at::Tensor& hidden, const RoutingContext& context) = 0;
  /// What score() is outside training, as a plain router without gradient; the tensors may be the
  /// parameters themselves, and are f64 where there are none. Throws AssertionError unless the
  /// resolved router's traits say foldable.
  virtual FoldedScorer fold() const;
  /// Re-draws the parameters: N(0, std) unless the method's source says otherwise.
  virtual void initialize(double std, at::Generator generator) = 0;
  /// Multiplies the logits of every token by `factor` for good, through the parameters: those of
  /// training too, and noise that the scorer adds stays as it is. False where no parameter does
  /// that; nothing changes then. REQUIRES: factor > 0.
  virtual bool scale_logits(double factor);
  /// Takes over what this scorer shares with those of the model's other layers, of which `first` is
  /// the first layer's. Nothing by default.
  virtual void share(Scorer& first);
  /// Multiply-adds that the logits of one token take in training.
  virtual std::int64_t products_per_token() const = 0;
  /// Numbers of parameters by what they are: "router" unless the scorer says otherwise. What is
  /// generated and never stored counts as "router"; what `share` took over counts for the first.
  virtual std::map<std::string, std::int64_t> parameters_by_part() const;
};

/// Turns scores into a plan. Stateless; one instance per layer.
class Selector {
 public:
  virtual ~Selector() = default;
  /// The plan for all T tokens; `Plan::k` is set by the router.
  virtual Plan select(const Scores& scores, const RoutingContext& context) = 0;
  /// Pools rows before scoring; the default hands them on. (Lory scores segment means.)
  virtual at::Tensor rows(const at::Tensor& hidden, const RoutingContext& context);
  /// Rows that rows() makes of a token: 1, or one for every so many tokens where it pools.
  virtual double rows_per_token() const;
  /// Active experts per token aimed at in this step.
  virtual double nominal_k(const RoutingContext& context) const = 0;
};

/// What a balancer says of one layer's pass.
struct BalancerOutput {
  at::Tensor loss;  ///< scalar, differentiable; undefined when it has none
  RoutingStatistics statistics;
};

/// Statistics of one optimizer step, already reduced over layers, micro-batches and ranks.
struct StepStatistics {
  double sparsity = 0;  ///< 1 − A / (T·E), mean
};

/// Adds losses and keeps state. One instance per model, shared by its layers; its buffers are
/// saved.
class Balancer : public torch::nn::Module {
 public:
  virtual BalancerOutput balance(const Scores& scores, const Plan& plan,
                                 const RoutingContext& context) = 0;
  /// Called once after every optimizer step.
  virtual void after_step(const StepStatistics&) {}
  /// State to log each step: λ and the like.
  virtual std::map<std::string, double> state() const { return {}; }
};

/// A part as the registry knows it.
template <class Part>
struct PartEntry {
  std::string summary;  ///< one sentence
  std::string source;   ///< paper and equation
  RouterTraits traits;
  std::vector<FieldDescription> fields;
  std::function<std::shared_ptr<Part>(const RouterShape&, const ConfigNode& options)> make;
  /// Checks options and fills in the defaults.
  std::function<ConfigNode(const ConfigNode& options)> complete;
  /// The traits under these options.
  std::function<RouterTraits(const ConfigNode& options)> traits_under;
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
};
/// All methods. `dense` has no parts: the model then builds no MoE layers.
const Registry<Method>& method_registry();

/// Which parts a model uses, as a recipe says it.
struct RouterConfig {
  std::string method = "topk";
  std::string scorer, selector;  ///< non-empty: override the method's
  std::optional<std::vector<std::string>> balancers;
  double k = 1;
  double init_std = 0;  ///< 0: the model's
  double lr_scale = 1;  ///< for the trainer
  std::map<std::string, ConfigNode> parts;

  template <class V>
  void visit(V& v) {
    v("method", method, {.help = "a named combination of parts; see `penstock routers`"});
    v("scorer", scorer, {.help = "scorer, instead of the method's"});
    v("selector", selector, {.help = "selector, instead of the method's"});
    v("balancers", balancers, {.help = "balancers, instead of the method's"});
    v("k", k, {.help = "nominal active experts per token, before granularity", .min = 0});
    v("init_std", init_std,
      {.help = "standard deviation of the router's initial weights; 0: the model's", .min = 0});
    v("lr_scale", lr_scale,
      {.help = "factor of the learning rate for the scorers' parameters", .min = 0});
    v.rest(parts, "options of a part in use, by its name");
  }
};

/// Names and options of the parts after the method, the overrides and the options are joined.
struct ResolvedRouter {
  std::string scorer, selector;
  std::vector<std::string> balancers;
  std::map<std::string, ConfigNode> options;  ///< of every part in use, defaults filled in
  RouterTraits traits;                        ///< of the combination

  bool dense() const { return selector.empty(); }
};

/// Joins method and overrides; throws Error for unknown names, for unknown or impossible options,
/// for options of parts not in use, and for parts that do not fit together.
ResolvedRouter resolve(const RouterConfig& config);

/// Why these parts cannot work together, or "" when they can.
std::string compatible(const std::string& scorer, const std::string& selector,
                       const std::vector<std::string>& balancers);

/// The balancers of a model in the order of `router.balancers`, shared by its layers; the model
/// registers them as modules, so that their buffers are saved.
std::vector<std::shared_ptr<Balancer>> make_balancers(const ResolvedRouter& router,
                                                      const RouterShape& shape);

/// The router of one layer: scorer and selector of its own, balancers of the model.
class Router : public torch::nn::Module {
 public:
  /// Parameters start as N(0, 0.02²) from the default generator; see Scorer::initialize.
  Router(const ResolvedRouter& config, const RouterShape& shape,
         std::vector<std::shared_ptr<Balancer>> balancers);

  /// Scores, plan, losses and statistics of one pass. hidden [T, d].
  /// Losses exist only when context.training. Statistics always hold "expert_tokens" [E] i64 unless
  /// the plan merges.
  RoutingResult route(const at::Tensor& hidden, const RoutingContext& context);

  Scorer& scorer() { return *scorer_; }
  const Selector& selector() const { return *selector_; }
  const RouterTraits& traits() const { return traits_; }

 private:
  void add_losses(RoutingResult& result, const RoutingContext& context);

  std::string scorer_name_;
  std::vector<std::string> balancer_names_;  // of balancers_
  std::shared_ptr<Scorer> scorer_;
  std::shared_ptr<Selector> selector_;
  std::vector<std::shared_ptr<Balancer>> balancers_;
  RouterTraits traits_;
};

/// Registers a part: `static const RegisterScorer<Linear, LinearConfig> registered{"linear", ...}`.
/// The class is constructed from (shape, config). Where options change traits, the config says how:
/// `void refine(RouterTraits&) const`.
template <class Base, class Class, class Config>
struct RegisterPart {
  RegisterPart(Registry<PartEntry<Base>>& registry, const std::string& name,
               const std::string& summary, const std::string& source, RouterTraits traits) {
    registry.add(name, {summary, source, traits, describe_config<Config>(),
                        [name](const RouterShape& shape, const ConfigNode& options) {
                          return std::static_pointer_cast<Base>(std::make_shared<Class>(
                              shape, read_config<Config>(options, "model.router." + name)));
                        },
                        [name](const ConfigNode& options) {
                          return write_config(read_config<Config>(options, "model.router." + name));
                        },
                        [name, traits](const ConfigNode& options) {
                          RouterTraits refined = traits;
                          refine(read_config<Config>(options, "model.router." + name), refined);
                          return refined;
                        }});
  }

 private:
  static void refine(const Config& config, RouterTraits& traits) {
    if constexpr (requires { config.refine(traits); }) config.refine(traits);
  }
};
template <class Class, class Config>
struct RegisterScorer : RegisterPart<Scorer, Class, Config> {
  RegisterScorer(const std::string& name, const std::string& summary, const std::string& source,
                 RouterTraits traits)
      : RegisterPart<Scorer, Class, Config>(scorer_registry(), name, summary, source, traits) {}
};
template <class Class, class Config>
struct RegisterSelector : RegisterPart<Selector, Class, Config> {
  RegisterSelector(const std::string& name, const std::string& summary, const std::string& source,
                   RouterTraits traits)
      : RegisterPart<Selector, Class, Config>(selector_registry(), name, summary, source, traits) {}
};
template <class Class, class Config>
struct RegisterBalancer : RegisterPart<Balancer, Class, Config> {
  RegisterBalancer(const std::string& name, const std::string& summary, const std::string& source,
                   RouterTraits traits)
      : RegisterPart<Balancer, Class, Config>(balancer_registry(), name, summary, source, traits) {}
};

}  // namespace penstock
