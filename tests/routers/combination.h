// One combination of parts with experts behind it, small and in fp64, and the properties that every
// combination must have. Each check returns what is wrong, or "" when nothing is; each believes the
// traits it is given, so that a test can hand it false ones.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "penstock/experts/experts.h"
#include "penstock/routers/router.h"
#include "tests/routers/parts.h"

namespace penstock::testing {

/// 3 sequences of 8 tokens, 5 experts.
struct Case {
  std::int64_t sequences = 3, sequence_length = 8, experts = 5, width = 6;
  double k = 2;

  std::int64_t tokens() const { return sequences * sequence_length; }
};

struct Input {
  at::Tensor hidden;     ///< [T, d] f64
  at::Tensor token_ids;  ///< [T] i64
};

struct Output {
  at::Tensor y;  ///< [T, d]
  RoutingResult routing;
};

/// Router, balancers and experts of one layer.
class Combination {
 public:
  /// @param selector_options  of the selector, beside those that every combination has here
  Combination(const std::string& scorer, const std::string& selector,
              const std::vector<std::string>& balancers, const Case& size = {},
              const Options& selector_options = {});

  /// Of the same parts, options and initial draws.
  Combination made_anew() const;
  Output run(const Input& input, std::uint64_t seed = 7, bool training = true);
  Input random_input(std::uint64_t seed) const;

  const Case& size() const { return size_; }
  const ResolvedRouter& resolved() const { return resolved_; }
  const RouterTraits& traits() const { return resolved_.traits; }
  Router& router() { return *router_; }
  Experts& experts() { return *experts_; }
  const std::vector<std::shared_ptr<Balancer>>& balancers() const { return balancers_; }
  /// Everything that a checkpoint of the layer holds.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;

 private:
  Case size_;
  Options selector_options_;
  ResolvedRouter resolved_;
  std::vector<std::shared_ptr<Balancer>> balancers_;
  std::shared_ptr<Router> router_;
  std::shared_ptr<Experts> experts_;
};

/// As many rows are scored as the traits' segments say; where tokens ask for their highest logits,
/// a selector takes every k up to the traits' most_k and refuses one more.
std::string chooses_as_traits_say(Combination& parts, const RouterTraits& traits);
/// Indices in range, sorted, unique, both indexes consistent, weights finite.
std::string plan_is_valid(const Plan& plan);
/// The same seed gives the same plan; another seed another one exactly when stochastic.
std::string seeds_decide(Combination& parts, const RouterTraits& traits);
/// Permuted tokens give the permuted plan, unless order_matters, and then they do not.
std::string permutes(Combination& parts, const RouterTraits& traits);
/// Outside training later tokens do not change earlier plans, unless not causal, and then they do.
std::string respects_time(Combination& parts, const RouterTraits& traits);
/// No tokens: an empty output, a finite loss, zero or no gradients.
std::string accepts_no_tokens(Combination& parts);
/// All tokens to one expert, as far as it takes them (or even loads, where the trait says so); the
/// others then have zero gradients.
std::string accepts_one_busy_expert(Combination& parts, const RouterTraits& traits);
/// The folded scorer gives the logits of inference, exactly where the trait says that it folds.
std::string folds(Combination& parts, const RouterTraits& traits);
/// Directional derivatives of outputs plus losses, for the input and every parameter; trained
/// scorers get a gradient and others none. Where the selector estimates its gradient, the experts'
/// parameters alone, and the input's must differ.
std::string gradients_agree(Combination& parts, const RouterTraits& traits);
/// What is saved after a step and loaded into another instance gives the same outputs and losses.
std::string survives_saving(Combination& parts);
/// Within a step a pass reads no number from a device but the plan's size: statistics and state
/// stay tensors.
std::string reads_no_statistics(Combination& parts);
/// The loss is the sum of the balancers' losses worked out entry by entry; none outside training.
std::string losses_agree(Combination& parts);

}  // namespace penstock::testing
