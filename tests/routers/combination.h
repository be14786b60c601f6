// One combination of router parts with experts, small and in fp64. The properties that every
// combination must have are in properties.h.
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
  /// @param selector_options  added to the selector's options that every combination here has
  Combination(const std::string& scorer, const std::string& selector,
              const std::vector<std::string>& balancers, const Case& size = {},
              const Options& selector_options = {});

  /// A copy with the same parts, options and initial draws.
  Combination made_anew() const;
  Output run(const Input& input, std::uint64_t seed = 7, bool training = true);
  Input random_input(std::uint64_t seed) const;

  const Case& size() const { return size_; }
  const ResolvedRouter& resolved() const { return resolved_; }
  const RouterTraits& traits() const { return resolved_.traits; }
  Router& router() { return *router_; }
  Experts& experts() { return *experts_; }
  const std::vector<std::shared_ptr<Balancer>>& balancers() const { return balancers_; }
  /// The router, the experts and the balancers: they hold all tensors of the layer's checkpoint.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;

 private:
  Case size_;
  Options selector_options_;
  ResolvedRouter resolved_;
  std::vector<std::shared_ptr<Balancer>> balancers_;
  std::shared_ptr<Router> router_;
  std::shared_ptr<Experts> experts_;
};

/// Statistics of a step of two layers in which the first expert had most of the tokens.
StepStatistics uneven_step(std::int64_t experts);

}  // namespace penstock::testing
