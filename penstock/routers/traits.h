// Traits: the properties that a part declares. Other code reads traits, never names, to decide
// which parts fit together and what a router allows. Traits are flags and plain values. A property
// that needs a computation is a function of the part (router.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/fields.h"

namespace penstock {

/// The formula of a selector's gates, for gates that depend on the token's logits alone.
enum class GateForm {
  other,              ///< none of these
  softmax_over_kept,  ///< g_j = exp(z_j) / Σ_{i kept} exp(z_i)
  softmax_over_all,   ///< g_j = exp(z_j) / Σ_i exp(z_i), kept unnormalised
  relu,               ///< g_j = z_j for positive z_j
};
const char* gate_form_name(GateForm form);

/// A number that a balancer logs each step and charts show.
struct LoggedState {
  std::string name;            ///< its key in metrics.jsonl
  std::string title, caption;  ///< of its chart
  std::string symbol;          ///< the label of the chart's axis
  bool logarithmic = false;    ///< whether the axis is logarithmic
  /// Whether the number is the balancer's loss without its weight. Training minimises their
  /// product.
  bool unweighted_loss = false;

  template <class V>
  void visit(V& v) {
    v("name", name);
    v("title", title);
  }
};

struct ScorerTraits {
  bool order_matters = false;
  bool stochastic = false;
  bool trainable = true;
  bool foldable = false;
  bool one_matrix = false;
  bool of_heads = false;
  bool no_logits = false;
  bool noisy = false;
  bool shared_by_layers = false;

  template <class V>
  void visit(V& v) {
    v("order_matters", order_matters,
      {.help = "a permutation of the tokens changes more than the order of the logits"});
    v("stochastic", stochastic, {.help = "draws random numbers when training"});
    v("trainable", trainable, {.help = "has trained parameters"});
    v("foldable", foldable, {.help = "can become one matrix and bias"});
    v("one_matrix", one_matrix,
      {.help = "is one matrix and bias outside training, without folding"});
    v("of_heads", of_heads,
      {.help = "consists of query maps and keys, which can come from a model's attention heads"});
    v("no_logits", no_logits, {.help = "gives no logits; for selectors that ignore logits"});
    v("noisy", noisy, {.help = "adds noise of known scale when training"});
    v("shared_by_layers", shared_by_layers,
      {.help = "a model's layers share some of its parameters"});
  }
};

struct SelectorTraits {
  bool causal = true;
  bool order_matters = false;
  bool stochastic = false;
  bool needs_token_ids = false;
  bool trainable = true;
  bool merges = false;
  bool has_k = false;
  bool variable_active = false;
  bool even_loads = false;
  bool ignores_logits = false;
  bool takes_highest = false;
  bool takes_bias = false;
  bool takes_thresholds = false;
  bool drops = false;
  bool unit_gates = false;
  bool estimates_gradient = false;
  GateForm gates = GateForm::other;
  std::int64_t most_k = 0;
  std::int64_t segment_length = 1;
  std::int64_t forward_passes = 1;
  double disagreement = 0;
  double distillation = 0;

  template <class V>
  void visit(V& v) {
    v("causal", causal,
      {.help = "outside training, a token's plan does not depend on later tokens"});
    v("order_matters", order_matters,
      {.help = "a permutation of the tokens changes more than the order of the plan"});
    v("stochastic", stochastic, {.help = "draws random numbers when training"});
    v("needs_token_ids", needs_token_ids, {.help = "reads the tokens' ids"});
    v("trainable", trainable, {.help = "passes gradients to the logits"});
    v("merges", merges, {.help = "blends expert weights per segment"});
    v("has_k", has_k, {.help = "k can be set"});
    v("variable_active", variable_active, {.help = "the number of active experts varies"});
    v("even_loads", even_loads,
      {.help = "experts get the same number of tokens, whatever the logits"});
    v("ignores_logits", ignores_logits, {.help = "the plan does not use the logits"});
    v("takes_highest", takes_highest,
      {.help = "a token requests the experts of its k highest logits"});
    v("takes_bias", takes_bias,
      {.help =
           "a balancer's bias changes the choice of experts, and the gates only if they are relu"});
    v("takes_thresholds", takes_thresholds,
      {.help = "experts choose tokens, and can use thresholds of their own outside training"});
    v("drops", drops, {.help = "may refuse a token an expert that the token requested"});
    v("unit_gates", unit_gates, {.help = "a token's gates sum to one, apart from refused experts"});
    v("estimates_gradient", estimates_gradient,
      {.help = "the backward pass in training gives an estimate, not the derivative of its gates"});
    std::string form = gate_form_name(gates);
    v("gates", form, {.help = "how the gates of a token's experts are computed"});
    v("most_k", most_k, {.help = "largest number of experts that a token may request; 0: all"});
    v("segment_length", segment_length,
      {.help = "number of consecutive tokens that are scored together; a divisor of the sequence "
               "length"});
    v("forward_passes", forward_passes,
      {.help = "passes of a training step over a batch, each with its own random draws"});
    v("disagreement", disagreement, {.help = "weight of the disagreement between two passes"});
    v("distillation", distillation,
      {.help = "weight of the divergence from a pass with all experts, which has no gradient"});
  }
};

struct BalancerTraits {
  bool needs_logits = false;
  bool needs_assignments = false;
  bool needs_noisy_choice = false;
  bool evens_loads = false;
  bool steers_sparsity = false;
  bool biases_choice = false;
  bool keeps_thresholds = false;
  bool needs_matrix = false;
  bool begins_at_k = false;
  bool by_sequence = false;
  bool pools_step = false;
  bool of_layout = false;
  std::vector<LoggedState> state = {};

  template <class V>
  void visit(V& v) {
    v("needs_logits", needs_logits, {.help = "its loss is a function of the logits themselves"});
    v("needs_assignments", needs_assignments, {.help = "cannot work on a merging plan"});
    v("needs_noisy_choice", needs_noisy_choice,
      {.help = "reads the probability that noise changes a choice"});
    v("evens_loads", evens_loads, {.help = "makes loads more even"});
    v("steers_sparsity", steers_sparsity,
      {.help = "controls the number of active experts, which the selector must leave variable"});
    v("biases_choice", biases_choice, {.help = "adds a bias to the choice of experts"});
    v("keeps_thresholds", keeps_thresholds,
      {.help = "keeps the lowest score at which an expert takes a token outside training, unless "
               "its option evaluation is \"batch\""});
    v("needs_matrix", needs_matrix,
      {.help = "computes its start from the matrix that the scorer folds into"});
    v("begins_at_k", begins_at_k,
      {.help = "about k experts per token are active from the first step on, not about half"});
    v("by_sequence", by_sequence, {.help = "counts the loads of each sequence separately"});
    v("pools_step", pools_step,
      {.help = "counts loads over all micro-batches of a step, before the training passes"});
    v("of_layout", of_layout, {.help = "its loss depends on which rank computes a token"});
    v("state", state, {.help = "values that it logs in each step"});
  }
};

/// The traits of a scorer, a selector and balancers together, under their options. The selector's
/// traits are those of the whole router. The scorer also changes order_matters, stochastic and
/// trainable. takes_highest describes the choice before any bias. With keeps_thresholds the router
/// is causal and its loads are not even, since experts then choose by thresholds outside training.
struct RouterTraits : SelectorTraits {
  bool foldable = false;
  bool one_matrix = false;
  bool of_heads = false;
  bool no_logits = false;
  bool noisy = false;
  bool shared_by_layers = false;
  bool steers_sparsity = false;
  bool biases_choice = false;
  bool keeps_thresholds = false;
  bool needs_matrix = false;
  bool begins_at_k = false;
  bool pools_step = false;

  template <class V>
  void visit(V& v) {
    SelectorTraits::visit(v);
    v("foldable", foldable);
    v("one_matrix", one_matrix);
    v("of_heads", of_heads);
    v("no_logits", no_logits);
    v("noisy", noisy);
    v("shared_by_layers", shared_by_layers);
    v("steers_sparsity", steers_sparsity);
    v("biases_choice", biases_choice);
    v("keeps_thresholds", keeps_thresholds);
    v("needs_matrix", needs_matrix);
    v("begins_at_k", begins_at_k);
    v("pools_step", pools_step);
  }
};

/// Joins the traits of the parts.
RouterTraits combined(const ScorerTraits& scorer, const SelectorTraits& selector,
                      const std::vector<BalancerTraits>& balancers);

}  // namespace penstock
