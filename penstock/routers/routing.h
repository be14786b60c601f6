// The values that pass between the parts of a router: context, scores, plan, losses, statistics.
// No part's code is here; `experts` and observers include only this file of `routers`.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/ops/slice.h"

namespace penstock {

namespace ops {
struct Route;
}

/// Shapes a router is built for. R rows are the T tokens of a micro-batch.
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
  /// Experts per token to use in place of the selector's own number and schedule, granularity
  /// applied, in 1..E; 0: the selector's. Refused by routers whose tokens do not ask for k experts.
  std::int64_t k = 0;
  /// Added to every logit before experts are switched on by its sign; refused by other routers.
  double logit_shift = 0;
  /// Token ids [T] i64, for routers that look at them; undefined when unknown.
  at::Tensor token_ids;
  /// Tokens per sequence; T is a multiple of it (rows are sequences one after another).
  std::int64_t sequence_length = 0;
  /// Draws for stochastic routers.
  std::optional<at::Generator> generator;
  /// Rank that holds each expert [E] i64, for locality losses; undefined on one rank. MoeLayer sets
  /// both by its expert group.
  at::Tensor expert_rank;
  std::int64_t rank = 0;   ///< of this process
  std::int64_t layer = 0;  ///< among the model's MoE layers; set by the router
  /// What all passes of the step ask of a layer's experts, [E + 1] f64 on the CPU: choices of each
  /// expert, and tokens. Given those of this pass; an embedder's may sum them over ranks whose
  /// passes are the step, the trainer's knows them from a pass before. Null: this pass is the step.
  std::function<at::Tensor(std::int64_t layer, const at::Tensor& mine)> reduce;
};

/// A scorer's result. logits [R, E] f32 (f64 in tests).
struct Scores {
  at::Tensor logits;
  at::Tensor clean_logits;  ///< before noise; undefined where there is none
  at::Tensor noise_scale;   ///< [R, E]; undefined where there is none
  at::Tensor penalty;       ///< scalar that the scorer adds to the loss; undefined: none
  /// [E], a bias that balancers add to the experts' scores in the choice alone; undefined: none.
  at::Tensor choice_bias;
  /// [E] f32, kept by a balancer: outside training an expert takes the tokens whose scores reach
  /// its threshold, each by itself. Undefined: it chooses among all, as in training.
  at::Tensor thresholds;
};

/// Which expert computes which token, with which weight. Either A assignments sorted by expert
/// (ties keep token order), or, for a merging selector, expert weights per segment.
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

  // Sums over the selector's logits that it took on its way, differentiable; undefined where it had
  // no use for them. Balancers read them through balancers/reductions.h.
  at::Tensor mean_probability;  ///< [E], mean over tokens of softmax(z_t)
  at::Tensor logsumexp;         ///< [T], of z_t
  at::Tensor gate_sums;         ///< [E], sums of the weights

  // Set by selectors that may refuse a token an expert; undefined and 0 with others.
  at::Tensor demand;          ///< [E] i64, choices that balance losses count, before any refusal
  std::int64_t overflow = 0;  ///< assignments refused because their expert was full

  /// [E] without gradient, the lowest score for which each expert took a token in this training
  /// pass; undefined where tokens choose, outside training, and without tokens.
  at::Tensor lowest_taken;

  at::Tensor merge_weights;         ///< [segments, E], differentiable; undefined unless merging
  std::int64_t segment_length = 0;  ///< tokens per segment when merging

  bool merges() const { return merge_weights.defined(); }
  std::int64_t assignments() const { return token.defined() ? token.size(0) : 0; }
};

/// A layer's statistics of one pass, by name, as plain numbers or small tensors without gradient.
using RoutingStatistics = std::map<std::string, at::Tensor>;

/// Everything one pass through one layer's router produced.
struct RoutingResult {
  at::Tensor hidden;  ///< [T, d], the layer's input
  Plan plan;
  Scores scores;
  at::Tensor loss;  ///< scalar: sum of `loss_terms`; undefined when there are none
  /// Scalars by the part that adds them: a balancer, or a scorer with a penalty. Differentiable.
  std::map<std::string, at::Tensor> loss_terms;
  RoutingStatistics statistics;
};

/// Builds the plan from gates and a mask.
///   assignments = {(e, t) : mask[t, e]}, weight = gates[t, e]
/// @param gates [T, E] f32|f64, differentiable
/// @param mask  [T, E] bool, same device
/// Gradient: gates, at the masked positions. Cost: O(T·E). Empty T, experts and masks are allowed.
Plan make_plan(const at::Tensor& gates, const at::Tensor& mask);

/// The plan from a routing operator's result for logits [T, E].
Plan make_plan(const at::Tensor& logits, const ops::Route& route);

/// Builds a merging plan: segment s of `segment_length` tokens uses the blend weights[s].
/// @param weights [segments, E], differentiable
Plan make_merge_plan(const at::Tensor& weights, std::int64_t tokens, std::int64_t segment_length);

/// The plan of the tokens in the range, in the order of the whole plan. It has no sums over the
/// logits. Gradient: weights, those of other tokens zero.
/// REQUIRES: where it merges, the range is of whole segments (asserted). Cost: O(A), on the CPU.
Plan plan_of_tokens(const Plan& plan, IndexRange tokens);

/// Assignments per expert [E] i64 on the CPU. REQUIRES: the plan does not merge.
at::Tensor expert_counts(const Plan& plan);

/// The share of token-expert pairs without an assignment.  1 − A / (T·E); 0 without tokens, and for
/// merging plans, in which every expert takes part.
double sparsity(const Plan& plan);

}  // namespace penstock
