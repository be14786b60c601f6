// The values that pass between the parts of a router: context, scores, plan, losses, statistics.
// No part's code is here; `experts` and observers include only this file of `routers`.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/ops/slice.h"

namespace penstock {

namespace ops {
struct Route;
}

/// The shapes that a router is built for. The R rows of a pass are the T tokens of a micro-batch.
struct RouterShape {
  std::int64_t d_model = 0;      ///< d
  std::int64_t experts = 0;      ///< E, granularity applied
  double k = 1;                  ///< nominal active experts per token, granularity applied
  std::int64_t granularity = 1;  ///< G: k values in options are multiplied by it
  std::int64_t layer = 0;        ///< index of the layer, for per-layer seeds
  std::int64_t layers = 1;       ///< MoE layers in the model
};

/// Throws Error unless the layers' k is a whole number in [1, E]. The error names `selector`.
void check_whole_k(const RouterShape& shape, std::string_view selector);

/// The context of one pass through one layer's router.
struct RoutingContext {
  std::int64_t step = 0;         ///< optimizer step, from 0
  std::int64_t total_steps = 0;  ///< of the run; 0 outside training
  bool training = false;
  /// The number of experts per token, granularity applied, in 1..E. It replaces the selector's own
  /// k and its schedule. 0: the selector's k. Routers whose tokens do not ask for k experts refuse
  /// it.
  std::int64_t k = 0;
  /// Added to every logit before the logit's sign switches the expert on. Other routers refuse it.
  double logit_shift = 0;
  /// Token ids [T] i64, for routers that read them; undefined if unknown.
  at::Tensor token_ids;
  /// Tokens per sequence; T is a multiple of it (rows are sequences one after another).
  std::int64_t sequence_length = 0;
  /// Tokens of each sequence before the padding that fills it up to whole segments. A selector that
  /// pools rows leaves the padding out. 0: no padding.
  std::int64_t unpadded_length = 0;
  /// The generator that stochastic routers draw from.
  std::optional<at::Generator> generator;
  /// The rank that holds each expert [E] i64, for locality losses; undefined on one rank. MoeLayer
  /// sets `expert_rank` and `rank` from its expert group.
  at::Tensor expert_rank;
  std::int64_t rank = 0;   ///< of this process
  std::int64_t layer = 0;  ///< among the model's MoE layers; set by the router
  /// Returns a layer's counts over all passes of the step, [E + 1] f64 on the CPU: the choices of
  /// each expert, then the number of tokens. `mine` has the counts of this pass. An embedder's
  /// function may sum `mine` over the ranks of the step. The trainer's function returns counts of
  /// an earlier pass over the same micro-batches. Null: this pass is the whole step.
  std::function<at::Tensor(std::int64_t layer, const at::Tensor& mine)> reduce;
};

/// A scorer's result. logits [R, E] f32 (f64 in tests).
struct Scores {
  at::Tensor logits;
  at::Tensor clean_logits;  ///< of balance losses: before noise, at a fixed τ; undefined: logits
  at::Tensor noise_scale;   ///< [R, E]; undefined where there is none
  at::Tensor penalty;       ///< scalar that the scorer adds to the loss; undefined: none
  /// [E], a bias that balancers add to the experts' scores for the choice of experts; undefined:
  /// none. Gates do not contain it unless they are ReLU gates.
  at::Tensor choice_bias;
  /// [E] f32, from a balancer: outside training an expert takes every token whose score reaches its
  /// threshold. Undefined: the expert chooses among all tokens, as in training.
  at::Tensor thresholds;
};

/// Which expert computes which token, with which weight. A plan has either A assignments sorted by
/// expert (ties keep token order), or, from a merging selector, expert weights per segment.
struct Plan {
  std::int64_t tokens = 0;   ///< T
  std::int64_t experts = 0;  ///< E
  double k = 1;              ///< active experts per token that this pass aimed at

  at::Tensor token;    ///< [A] i64, row of `hidden`
  at::Tensor expert;   ///< [A] i64, ascending
  at::Tensor weight;   ///< [A], differentiable
  at::Tensor offsets;  ///< [E+1] i64 on the CPU: expert e owns [offsets[e], offsets[e+1])
  /// Assignments of token t, in expert order: by_token[token_offsets[t] .. token_offsets[t+1]).
  at::Tensor by_token;       ///< [A] i64
  at::Tensor token_offsets;  ///< [T+1] i64
  /// [E] bool on the CPU, the experts whose assignments all have the weight 0 and only carry a
  /// gradient. They are computed, but count as experts without tokens. Undefined: there are none.
  at::Tensor idle;

  // Sums over the logits that the selector computed along with the plan; differentiable. They are
  // undefined if the selector did not compute them. Balancers read them through
  // balancers/reductions.h.
  at::Tensor mean_probability;  ///< [E], mean over tokens of softmax(z_t)
  at::Tensor logsumexp;         ///< [T], of z_t
  at::Tensor gate_sums;         ///< [E], sums of the weights

  // Selectors that may refuse a token an expert set these two. With other selectors they are
  // undefined and 0.
  at::Tensor demand;          ///< [E] i64, choices that balance losses count, before any refusal
  std::int64_t overflow = 0;  ///< assignments refused because their expert was full

  /// [E] without gradient, the lowest score of a token that each expert took in this training pass.
  /// Undefined if tokens choose experts, outside training, and without tokens.
  at::Tensor lowest_taken;

  at::Tensor merge_weights;         ///< [segments, E], differentiable; undefined unless merging
  std::int64_t segment_length = 0;  ///< tokens per segment when merging

  bool merges() const { return merge_weights.defined(); }
  /// A, with the assignments of idle experts.
  std::int64_t assignments() const { return token.defined() ? token.size(0) : 0; }
};

/// A layer's statistics of one pass, by name, as plain numbers or small tensors without gradient.
using RoutingStatistics = std::map<std::string, at::Tensor>;

/// All results of one pass through one layer's router.
struct RoutingResult {
  at::Tensor hidden;  ///< [T, d], the layer's input
  Plan plan;
  Scores scores;
  at::Tensor loss;  ///< scalar: sum of `loss_terms`; undefined when there are none
  /// Scalars by the part that adds them: a balancer, or a scorer with a penalty. Differentiable.
  std::map<std::string, at::Tensor> loss_terms;
  RoutingStatistics statistics;
};

/// Makes a plan from gates and a mask.
///   assignments = {(e, t) : mask[t, e]}, weight = gates[t, e]
/// @param gates [T, E] f32|f64, differentiable
/// @param mask  [T, E] bool, same device
/// Gradient: gates, at the masked positions. Cost: O(T·E). Empty T, experts and masks are allowed.
Plan make_plan(const at::Tensor& gates, const at::Tensor& mask);

/// Makes a plan from the result of a routing operator for logits [T, E].
Plan make_plan(const at::Tensor& logits, const ops::Route& route);

/// Makes a merging plan. Segment s of `segment_length` tokens uses the blend weights[s].
/// @param weights [segments, E], differentiable
Plan make_merge_plan(const at::Tensor& weights, std::int64_t tokens, std::int64_t segment_length);

/// The plan of the tokens in the range, in the order of the whole plan. It has no sums over the
/// logits.
/// REQUIRES: the range has whole segments if the plan merges (asserted).
/// Gradient: weights; weights of tokens outside the range get 0. Cost: O(A), on the CPU.
Plan plan_of_tokens(const Plan& plan, IndexRange tokens);

/// The number of assignments of each expert [E] i64, on the CPU; 0 for an idle expert.
/// REQUIRES: the plan does not merge.
at::Tensor expert_counts(const Plan& plan);

/// The number of assignments without those of idle experts; 0 for a merging plan.
std::int64_t active_assignments(const Plan& plan);

/// The share of (token, expert) pairs without an active assignment A:  1 − A / (T·E).  It is 0
/// without tokens, and for a merging plan, in which every expert takes part.
double sparsity(const Plan& plan);

}  // namespace penstock
