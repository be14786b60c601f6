// The properties that every combination of parts must have. Each check returns a description of
// what is wrong, or "". Each check takes the traits as an argument, so that a test can pass false
// ones.
#pragma once

#include <string>

#include "tests/routers/combination.h"

namespace penstock::testing {

/// The number of scored rows matches the traits' segment length. If tokens take their highest
/// logits, the selector accepts every k up to the traits' most_k and refuses larger ones.
std::string chooses_as_traits_say(Combination& parts, const RouterTraits& traits);
/// The plan's indices are in range, sorted and unique; both indexes agree; weights are finite.
std::string plan_is_valid(const Plan& plan);
/// The same seed gives the same plan. Another seed gives another plan exactly if the router is
/// stochastic.
std::string seeds_decide(Combination& parts, const RouterTraits& traits);
/// Permuted tokens give the permuted plan, exactly if order_matters is false.
std::string permutes(Combination& parts, const RouterTraits& traits);
/// Outside training, later tokens do not change earlier tokens' plans, exactly if causal is true.
std::string respects_time(Combination& parts, const RouterTraits& traits);
/// A batch without tokens gives an empty output, a loss of 0, and zero or no gradients.
std::string accepts_no_tokens(Combination& parts);
/// If all tokens choose one expert, the expert gets all of them, or fewer exactly if `drops` is
/// true. With even_loads all loads are equal instead. Idle experts have zero gradients.
std::string accepts_one_busy_expert(Combination& parts, const RouterTraits& traits);
/// The folded scorer gives the logits of inference, exactly if the trait says that it folds.
std::string folds(Combination& parts, const RouterTraits& traits);
/// Directional derivatives of outputs plus losses agree with differences, for the input and every
/// parameter. The scorer gets a gradient exactly if `trainable` is true. If the selector estimates
/// its gradient, only the experts' parameters are checked, and the input's derivative must differ.
std::string gradients_agree(Combination& parts, const RouterTraits& traits);
/// State saved after a step and loaded into another instance gives the same outputs and losses.
std::string survives_saving(Combination& parts);
/// A forward pass within a step reads at most one number from the device: the plan's size.
/// Statistics and state stay tensors.
std::string reads_no_statistics(Combination& parts);
/// In training, the loss is the sum of the balancers' losses computed entry by entry. Outside
/// training there is no loss.
std::string losses_agree(Combination& parts);

}  // namespace penstock::testing
