// The three kinds of parts of a router: scorers, selectors and balancers.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

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
  /// The router calls it when a layer's scorer has its first parameters, drawn or from an
  /// upcycling, with the matrix that the scorer folds into. A stored model's balancers read their
  /// state instead. Only for a balancer with the trait needs_matrix.
  virtual void start(std::int64_t /*layer*/, const FoldedScorer&) {}
  /// The trainer calls it once after every optimizer step.
  virtual void after_step(const StepStatistics&) {}
  /// The values to log each step, such as λ. Their names are those in the traits.
  virtual std::map<std::string, double> state() const { return {}; }
};

}  // namespace penstock
