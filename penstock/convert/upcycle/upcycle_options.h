// The options of upcycling: the only declaration of the options of `penstock upcycle` and of the
// keys of a study's `upcycle`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/base/fields.h"
#include "penstock/convert/upcycle/expert_copies.h"
#include "penstock/convert/upcycle/head_groups.h"

namespace penstock {

/// The rule for the gates and the size of the logits at the start of training.
enum class UpcycleStart {
  published,  ///< as in the method's paper, whatever the effect on the parent's loss
  /// The result computes its parent's function if it has softmax gates of more than one expert:
  /// they sum to one, and the logits of routers made of attention heads are scaled to
  /// kParentEntropy of a uniform choice, so that neither a z-loss nor one expert dominates. ReLU
  /// gates are scaled so that their mean sum over the calibration text is one, which keeps the size
  /// of the outputs but not the function. The softmax gate of a single expert is as in the method's
  /// paper.
  parent
};
constexpr std::array<std::string_view, 2> words(UpcycleStart) { return {"published", "parent"}; }
/// Fraction of ln E; 1.81 nats for 8 experts. The measurements are in
/// docs/results/router-upcycling-start.md and docs/results/stories-upcycled.md.
constexpr double kParentEntropy = 0.87;

/// How an expert's scores are pooled over Router Upcycling's routers.
enum class RouterPool { sum, max };
constexpr std::array<std::string_view, 2> words(RouterPool) { return {"sum", "max"}; }

/// The direction of the rows of a router's matrix at the start of training.
enum class RouterDirections {
  heads,   ///< the rows of the matrix that Router Upcycling's routers fold into
  random,  ///< rows that the scorer draws
  kmeans,  ///< the spherical means of the feed-forwards' inputs over the calibration text
};
constexpr std::array<std::string_view, 3> words(RouterDirections) {
  return {"heads", "random", "kmeans"};
}

/// The type of an upcycled model's tensors, except the routers'.
enum class UpcycleDtype { f32, f16, bf16 };
constexpr std::array<std::string_view, 3> words(UpcycleDtype) { return {"f32", "f16", "bf16"}; }

struct UpcycleOptions {
  std::string method = "router-upcycling", scorer;
  std::int64_t experts = 8;  ///< E, before granularity
  double k = 0;              ///< active experts per token, before granularity
  UpcycleStart start = UpcycleStart::published;
  bool renormalise = false;
  ConfigNode router_options;
  std::uint64_t seed = 1;
  bool force = false;  ///< upcycle even if memory or disk seem too small

  // Experts.
  std::int64_t granularity = 1;
  ShardScale scale = ShardScale::published;
  double noise = 0;
  bool untie = false;
  std::int64_t shared_width = 0;
  bool shared_copy = false;  ///< adds a shared expert that is a copy of the feed-forward

  // Router Upcycling.
  std::int64_t routers = 0;  ///< m
  std::int64_t keys = 0;
  KeyGrouping grouping = KeyGrouping::distinct;
  std::optional<RouterPool> pool;
  bool collapsed = false;
  std::string calibration;
  std::int64_t calibration_tokens = 65536, calibration_window = 0;
  bool keys_after_rope = false, key_bias = true, query_bias = false;
  bool correct_gain = false;

  // Controls.
  std::optional<RouterDirections> directions;
  bool match_logits = false;
  double lr_scale = 1;
  bool match_lr = false;  ///< take lr_scale from effective_lr_scale()
  double start_entropy = 0;

  std::optional<UpcycleDtype> dtype;

  template <class V>
  void visit(V& v) {
    visit_method(v);
    visit_router_upcycling(v);
    visit_experts(v);
    visit_controls(v);
    v("dtype", dtype,
      {.help =
           "type of all weights except the routers', which are f32; not given: the parent's type"});
    v("router", router_options,
      {.help = "table that overrides keys of the result's [model.router]"});
  }

 private:
  template <class V>
  void visit_method(V& v) {
    v("method", method,
      {.help = "routing method; vanilla, switch, locmoe, mlp, router-upcycling, remoe, or any "
               "other of `penstock routers`"});
    v("scorer", scorer,
      {.help = "scorer in place of the method's; a scorer, or a method whose scorer is taken "
               "(method remoe, scorer router-upcycling)"});
    v("experts", experts, {.help = "number of experts, before granularity", .min = 1});
    v("k", k,
      {.help = "active experts per token; 0: the method's number, 2 (switch: 1)", .min = 0});
    v("start", start,
      {.help = "gates and logits at the start of training; published: as in the method's paper; "
               "parent: training starts from the parent's function. With a softmax over more than "
               "one expert, gates sum to one, and logits made of attention heads are scaled to "
               "0.87 of the entropy of a uniform choice. ReLU gates are scaled so that their mean "
               "sum over the calibration text is one, which comes close to the parent. A softmax "
               "gate of a single expert starts as published, and a line says so"});
    v("renormalise", renormalise,
      {.help = "make the gates of a token's experts sum to one, also with start = published"});
  }
  template <class V>
  void visit_router_upcycling(V& v) {
    v("routers", routers,
      {.help = "number m of Router Upcycling's routers; 0: the number of experts", .min = 0});
    v("keys", keys,
      {.help = "number of keys of all experts in Router Upcycling; 0: the larger of routers and "
               "experts",
       .min = 0});
    v("grouping", grouping,
      {.help = "grouping of heads in Router Upcycling with more keys than routers; distinct: each "
               "further m keys get a new grouping of the heads, and no group occurs twice; "
               "literal: the paper's text, heads are duplicated keys / m times and then grouped by "
               "similarity, copies of a head first"});
    v("pool", pool,
      {.help = "an expert's score over Router Upcycling's routers; sum or max; not given: sum"});
    v("collapsed", collapsed,
      {.help = "trained weights of the router; factored: query maps and keys; collapsed: the one "
               "matrix that they fold into",
       .words = {"factored", "collapsed"},
       .option = "router_form"});
    v("calibration", calibration,
      {.help = "calibration text for the mean keys: a corpus directory, or a text file for the "
               "model's own tokenizer; in a study: the recipe's corpus unless given"});
    v("calibration_tokens", calibration_tokens,
      {.help = "largest number of tokens taken from the calibration text", .min = 1});
    v("calibration_window", calibration_window,
      {.help =
           "tokens in an attention window over the calibration text; 0: the context, at most 512",
       .min = 0});
    v("keys_after_rope", keys_after_rope,
      {.help = "take keys before (pre) or after (post) rotary positions",
       .words = {"pre", "post"},
       .option = "key_rope"});
    v("key_bias", key_bias,
      {.help = "keep or drop the key projection's bias", .words = {"drop", "keep"}});
    v("query_bias", query_bias,
      {.help = "keep or drop the query projection's bias", .words = {"drop", "keep"}});
    v("correct_gain", correct_gain,
      {.help =
           "gain of the norms in the query maps; correct: each feature of the query maps is "
           "multiplied by the gain of the norm before attention, divided by the gain of the norm "
           "whose output the router and the experts read; keep: query maps are unchanged",
       .words = {"keep", "correct"},
       .option = "norm_gain"});
  }
  template <class V>
  void visit_experts(V& v) {
    v("granularity", granularity,
      {.help = "G: splits each feed-forward into G shards, which are chosen together at first",
       .min = 1,
       .max = 4096});
    v("scale", scale,
      {.help = "scaling of the shards that makes up for their gates: published (cube root on all "
               "three matrices), exact (square root on up and down), none"});
    v("noise", noise,
      {.help = "standard deviation of the noise added to each expert's weights",
       .min = 0,
       .max = 1000});
    v("untie", untie,
      {.help = "give the output head its own copy of the shared embeddings: the same function at "
               "first, more parameters"});
    v("shared_width", shared_width,
      {.help = "width of a shared expert for every token, whose output is 0 at first; 0: none",
       .min = 0,
       .option = "shared_expert"});
    v("shared_copy", shared_copy,
      {.help = "a shared expert that is a copy of the feed-forward",
       .option = "shared_expert",
       .in_place = "copy"});
  }
  template <class V>
  void visit_controls(V& v) {
    v("start_entropy", start_entropy,
      {.help = "scale each router's logits so that its softmax over the experts has this mean "
               "entropy, in nats, over the calibration text; 0: the scale that start sets",
       .min = 0});
    v("directions", directions,
      {.help =
           "directions of the rows of a one-matrix router; heads: as in Router Upcycling's folded "
           "matrix; random: random directions; kmeans: means of the feed-forwards' inputs over the "
           "calibration text; not given: heads for routers made of attention heads, else random"});
    v("match_logits", match_logits,
      {.help = "scale a random linear router to the size of Router Upcycling's logits"});
    v("lr_scale", lr_scale, {.help = "factor of the routers' learning rate", .min = 1e-9});
    v("match_lr", match_lr,
      {.help = "the estimated ratio by which Router Upcycling's folded matrix moves faster than a "
               "plain router",
       .option = "lr_scale",
       .in_place = "match"});
  }
};

}  // namespace penstock
