// The properties that every combination of parts must have. Each check returns what is wrong, or ""
// when nothing is; each believes the traits it is given, so that a test can hand it false ones.
#pragma once

#include <string>

#include "tests/routers/combination.h"

namespace penstock::testing {

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
