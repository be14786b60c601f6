// The config of an upcycled model: the parent's config with experts and a router.
#include "penstock/convert/upcycle/upcycled_config.h"

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/base/member_names.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/option_changes.h"
#include "penstock/routers/part_names.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/resolve.h"

namespace penstock {
namespace {

/// The method whose scorer is wanted. Throws Error for one without a scorer, and for what is
/// neither a method nor a scorer.
/// @param wanted  options.scorer, which is not the name of a scorer
const Method& method_of_scorer(const std::string& wanted) {
  if (!method_registry().contains(wanted))
    check_part_name(wanted, PartKind::scorer, "options.scorer");
  const Method& method = method_registry().at(wanted);
  PENSTOCK_CHECK(!method.scorer.empty(), "options.scorer ", wanted, ": this method has none");
  return method;
}

void name_scorer(RouterConfig& router, const std::string& wanted) {
  if (wanted.empty()) return;
  if (scorer_registry().contains(wanted)) {
    router.scorer = wanted;
    return;
  }
  const Method& method = method_of_scorer(wanted);
  router.scorer = method.scorer;
  if (const auto options = method.options.find(method.scorer); options != method.options.end())
    router.parts[method.scorer] = options->second;
}

/// The sizes of a scorer made of attention heads, from the parent's heads.
HeadSizes head_sizes(const ModelConfig& parent, const UpcycleOptions& options) {
  const std::int64_t routers = options.routers > 0 ? options.routers : options.experts;
  const std::int64_t keys = options.keys > 0 ? options.keys : std::max(routers, options.experts);
  const std::int64_t parts = head_parts(parent.heads, parent.head_dim, routers);
  PENSTOCK_CHECK(keys >= options.experts, "options.keys ", keys, " of ", options.experts,
                 " experts: each needs one");
  return {.routers = routers,
          .keys = keys != options.experts ? keys * options.granularity : 0,
          .width = parent.heads * parts / routers * (parent.head_dim / parts),
          .pool = options.pool ? std::string(word(*options.pool)) : "",
          .bias = options.query_bias && parent.qkv_bias,
          .collapsed = options.collapsed};
}

/// The scorer that serves the method's selector.
std::string scorer_under(const UpcycleOptions& options, const Method& method) {
  if (options.scorer.empty()) return method.scorer;
  if (scorer_registry().contains(options.scorer)) return options.scorer;
  return method_of_scorer(options.scorer).scorer;
}

/// Whether mixtures of attention heads are made, as routers or for comparison with routers.
bool makes_heads(const UpcycleOptions& options) {
  return options.match_logits || options.match_lr || options.directions == RouterDirections::heads;
}

/// Throws Error if the scorer's parameters cannot take the directions.
void check_directions(const UpcycleOptions& options, const ResolvedRouter& router) {
  if (!options.directions) return;
  const bool heads = *options.directions == RouterDirections::heads;
  if (router.traits.of_heads) {
    PENSTOCK_CHECK(
        heads || options.collapsed, "options.directions ", word(*options.directions),
        ": query maps and keys are made of attention heads; give options.collapsed, or a "
        "scorer that is one matrix");
    return;
  }
  if (*options.directions == RouterDirections::random) return;
  PENSTOCK_CHECK(takes_rows(router), "options.directions ", word(*options.directions),
                 " are the rows of one matrix that is trained; scorer '", router.scorer,
                 "' is another");
  PENSTOCK_CHECK(!heads || std::max(options.routers, options.keys) <= options.experts,
                 "options.directions heads: one matrix has a row for each of ", options.experts,
                 " experts; options.routers and options.keys must not be more");
}

/// The config with its defaults. Error messages name the options that gave the wrong keys.
ModelConfig resolved_for(const ModelConfig& config, const UpcycleOptions& options) {
  try {
    // Checks that the written config can be read.
    read_config<ModelConfig>(write_config(config), "model");
    return config.resolved();
  } catch (const Error& error) {
    fail(with_model_keys(error.what(), [&](const std::string& key) -> std::string {
      for (const char* const member : {"experts", "granularity", "shared_width"})
        if (key == concat("model.moe.", member)) return concat("options.", member);
      const bool k = key == "model.router.k" && !options.router_options.find("k");
      return k ? "options.k" : "";
    }));
  }
}

/// Sets the options of the router's parts: sizes from the parent's heads, the bias, and the option
/// that makes gates sum to one. options.router_options override them.
void set_parts(RouterConfig& router, const Method& method, const ModelConfig& parent,
               const UpcycleOptions& options) {
  const std::string scorer = router.scorer.empty() ? method.scorer : router.scorer;
  if (scorer_registry().at(scorer).traits.of_heads) {
    set_heads(router, scorer, head_sizes(parent, options));
  } else {
    PENSTOCK_CHECK(!options.pool && !options.collapsed && !options.query_bias,
                   "options.pool, options.query_bias and options.collapsed are for Router "
                   "Upcycling; scorer '",
                   scorer, "' has none");
    const bool plain = options.routers == 0 && options.keys == 0 && !options.correct_gain &&
                       options.grouping == KeyGrouping::distinct;
    PENSTOCK_CHECK(
        plain || makes_heads(options),
        "options.routers, options.keys, options.grouping and options.correct_gain are for "
        "Router Upcycling; scorer '",
        scorer, "' has none");
    // Other programs' routers have no bias, and an upcycled model should be exportable.
    const ScorerTraits& traits = scorer_registry().at(scorer).traits;
    if (traits.foldable && traits.trainable) leave_out_default_bias(router, scorer);
  }
  PENSTOCK_CHECK(!options.renormalise || can_renormalise(method.selector),
                 "options.renormalise: selector '", method.selector,
                 "' has no gates that a softmax makes");
  if (options.renormalise) renormalise(router, method.selector);
  if (!options.router_options.empty()) {
    ConfigNode node = write_config(router);
    node.merge(options.router_options);
    router = read_config<RouterConfig>(node, "model.router");
  }
}

bool is_swiglu(const ModelConfig& config) { return config.ffn_form().inputs() == 2; }

}  // namespace

UpcycleOptions completed(UpcycleOptions options) {
  const Method& method = method_named(options.method, "options.method");
  PENSTOCK_CHECK(!method.selector.empty(), "options.method ", options.method, " has no router");
  PENSTOCK_CHECK(options.experts * options.granularity > 1, "options.experts ", options.experts,
                 ": must be 2 or more, or be cut by options.granularity");
  const SelectorTraits& selector = selector_registry().at(method.selector).traits;
  if (options.k == 0)
    options.k = method.k > 0 ? method.k : selector.has_k || selector.variable_active ? 2 : 1;
  if (options.start == UpcycleStart::published) return options;
  const double active = options.k * static_cast<double>(options.granularity);
  options.renormalise = options.renormalise || (can_renormalise(method.selector) && active > 1);
  const bool of_heads = scorer_registry().at(scorer_under(options, method)).traits.of_heads ||
                        makes_heads(options) || options.directions == RouterDirections::kmeans;
  // Only a softmax has an entropy.
  const bool softmax = selector.gates != GateForm::relu;
  if (options.start_entropy == 0 && of_heads && softmax) {
    const auto experts = static_cast<double>(options.experts * options.granularity);
    options.start_entropy = kParentEntropy * std::log(experts);
  }
  return options;
}

void check_can_upcycle(const ModelConfig& parent, const std::string& origin) {
  PENSTOCK_CHECK(is_swiglu(parent), origin, ": ", word(parent.architecture),
                 " is not upcycled: its feed-forwards are not SwiGLU ones");
  PENSTOCK_CHECK(parent.moe_layers() == 0, origin, ": has experts already; upcycle a dense model");
}

ModelConfig upcycled_config(const ModelConfig& parent, const UpcycleOptions& given) {
  const UpcycleOptions options = completed(given);
  PENSTOCK_ASSERT(is_swiglu(parent) && parent.moe_layers() == 0, "refused by check_can_upcycle");
  const Method& method = method_registry().at(options.method);
  PENSTOCK_CHECK(!options.untie || parent.tie_embeddings,
                 "options.untie: the model's head is no copy of its embeddings; leave it out");
  ModelConfig config = parent;
  if (options.untie) config.tie_embeddings = false;
  config.moe = {.experts = options.experts,
                .granularity = options.granularity,
                .shared_width = options.shared_copy ? parent.d_ffn : options.shared_width};
  RouterConfig& router = config.router = {.method = options.method};
  router.k = options.k;
  router.lr_scale = options.lr_scale;
  name_scorer(router, options.scorer);
  set_parts(router, method, parent, options);
  config = resolved_for(config, options);
  PENSTOCK_CHECK(
      !options.renormalise || config.active_experts() > 1,
      "options.renormalise with one expert per token makes every gate 1, of which the router "
      "learns nothing; leave it out, or give options.k 2");
  const ResolvedRouter resolved = resolve(config.router);
  check_directions(options, resolved);
  PENSTOCK_CHECK(options.lr_scale == 1 || resolved.traits.trainable, "options.lr_scale: scorer '",
                 resolved.scorer, "' has nothing to train");
  if (resolved.traits.gates != GateForm::relu) return config;
  PENSTOCK_CHECK(options.start_entropy == 0, "options.start_entropy: selector '", resolved.selector,
                 "' weighs experts by their logits, without a softmax that has an entropy; leave "
                 "it out");
  PENSTOCK_CHECK(
      options.start == UpcycleStart::published || !(options.match_logits || options.match_lr),
      "options.match_logits and options.match_lr: options.start parent scales the logits under "
      "selector '",
      resolved.selector, "' by itself; give options.start published");
  return config;
}

RouterDirections router_directions(const ModelConfig& config, const UpcycleOptions& options) {
  const bool of_heads = config.traits().of_heads;
  return options.directions.value_or(of_heads ? RouterDirections::heads : RouterDirections::random);
}

bool takes_rows(const ResolvedRouter& router) {
  return router.traits.one_matrix && scorer_registry().at(router.scorer).traits.trainable;
}

bool measures_gate_sums(const ModelConfig& config, const UpcycleOptions& options) {
  return options.start == UpcycleStart::parent && !config.traits().unit_gates;
}

bool takes_calibration(const ModelConfig& config, const UpcycleOptions& options) {
  return router_directions(config, options) != RouterDirections::random || options.match_logits ||
         options.match_lr || options.start_entropy > 0 || measures_gate_sums(config, options);
}

}  // namespace penstock
