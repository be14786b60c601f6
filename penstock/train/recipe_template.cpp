#include "penstock/train/recipe_template.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <set>

#include "penstock/base/error.h"
#include "penstock/routers/compatible.h"
#include "penstock/routers/part_names.h"
#include "penstock/routers/plain_router.h"
#include "penstock/routers/registry.h"
#include "penstock/train/recipe.h"

namespace penstock {
namespace {

constexpr std::int64_t kExperts = 8;
constexpr std::size_t kColumns = 96;

/// The keys that most people change first.
const std::set<std::string> kFirst = {"name",
                                      "model.vocab",
                                      "model.d_model",
                                      "model.layers",
                                      "model.heads",
                                      "model.d_ffn",
                                      "model.moe.experts",
                                      "model.router.method",
                                      "model.router.k",
                                      "data.corpus",
                                      "train.steps",
                                      "train.batch_sequences",
                                      "train.sequence_length",
                                      "train.lr",
                                      "train.weight_decay",
                                      "train.beta1",
                                      "train.beta2",
                                      "train.seed",
                                      "train.checkpoint_every",
                                      "train.eval_every"};

/// What a user should know before changing a key, besides its help.
const std::map<std::string, std::string> kRemarks = {
    {"data.corpus", "Make it with `penstock data prepare INPUT --out corpus`."},
    {"train.weight_decay",
     "AdamW. docs/train.md says where the defaults come from, and what others take."}};

std::string value_text(const ConfigNode& value) {
  ConfigNode holder;
  holder.set("v", value);
  const std::string text = to_toml(holder);  // "v = 1\n", or "" for an absent optional
  return text.size() > 5 ? text.substr(4, text.size() - 5) : "";
}

const ConfigNode* find_dotted(const ConfigNode& root, const std::string& path) {
  const auto dot = path.find('.');
  const ConfigNode* child = root.find(path.substr(0, dot));
  return !child || dot == path.npos ? child : find_dotted(*child, path.substr(dot + 1));
}

/// Writes TOML, key by key.
class Writer {
 public:
  void comment(const std::string& text) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      std::size_t end = text.size();
      if (end - begin > kColumns) {
        end = text.rfind(' ', begin + kColumns);
        if (end == text.npos || end <= begin) end = std::min(begin + kColumns, text.size());
      }
      out_ += "# " + text.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  }

  /// @param active  false: commented out with '#'
  void key(const FieldDescription& field, const std::string& value, bool active) {
    const auto dot = field.path.rfind('.');
    const std::string table = dot == field.path.npos ? "" : field.path.substr(0, dot);
    if (table != table_) out_ += "\n[" + table + "]\n";
    table_ = table;
    if (const auto remark = kRemarks.find(field.path); remark != kRemarks.end() && active)
      comment(remark->second);
    comment(field.help + (field.range.empty() ? "" : " (" + field.range + ")"));
    out_ += (active ? "" : "#") + field.path.substr(dot == field.path.npos ? 0 : dot + 1) + " = " +
            value + "\n";
  }
  std::string take() && { return std::move(out_); }

 private:
  std::string out_, table_;
};

/// Calls action(field, value) for every option of the router's parts. The field has its full path.
void for_options(const ResolvedRouter& router,
                 const std::function<void(const FieldDescription&, const std::string&)>& action) {
  const auto visit = [&](const auto& registry, const std::string& part) {
    for (FieldDescription field : registry.at(part).fields) {
      const ConfigNode* value = find_dotted(router.options.at(part), field.path);
      field.path = "model.router." + part + "." + field.path;
      const std::string text = value ? value_text(*value) : "";
      if (!text.empty()) action(field, text);
    }
  };
  if (router.dense()) return;
  visit(scorer_registry(), router.scorer);
  visit(selector_registry(), router.selector);
  for (const auto& balancer : router.balancers) visit(balancer_registry(), balancer);
}

/// The value that the template gives in place of a field's default; "": it gives the default.
std::string chosen_value(const std::string& path, const RouterConfig& router,
                         const ResolvedRouter& parts) {
  const auto text = [](ConfigNode::Value value) {
    return value_text(ConfigNode(std::move(value)));
  };
  if (path == "model.vocab") return "0";
  if (path == "data.corpus") return text(std::string("corpus"));
  if (path == "train.checkpoint_every" || path == "train.eval_every") return "100";
  if (path == "name" || path == "model.router.method") return text(router.method);
  if (path == "model.router.k") return text(router.k);
  if (parts.dense()) return "";
  if (path == "model.moe.experts") return text(kExperts);
  if (path == "model.router.scorer") return text(parts.scorer);
  if (path == "model.router.selector") return text(parts.selector);
  if (path != "model.router.balancers") return "";
  ConfigNode::Array names;
  for (const auto& balancer : parts.balancers) names.emplace_back(ConfigNode::Value(balancer));
  return text(std::move(names));
}

ModelConfig small_model(const RouterConfig& router) {
  return {.d_model = 32, .layers = 1, .heads = 4, .moe = {.experts = kExperts}, .router = router};
}

/// Whether every gate is 1 whatever the logits, so that the loss does not move the router.
bool gates_are_constant(const ResolvedRouter& parts, const RouterShape& shape) {
  const torch::NoGradGuard no_grad;
  Router router(parts, shape, make_balancers(parts, shape));
  router.initialize(0.02, InitialDraws(1));
  const auto hidden = torch::linspace(-1, 1, 16 * shape.d_model).view({16, shape.d_model}).sin();
  const RoutingContext context{.token_ids = torch::arange(16), .sequence_length = 16};
  const Plan plan = router.route(hidden, context).plan;
  return plan.weight.defined() && plan.weight.numel() > 0 &&
         (plan.weight - 1).abs().max().item<double>() < 1e-6;
}

/// The router with a k that lets it learn: all experts where a schedule of k ends, 2 if the gate of
/// a single expert is always 1, else its own k.
RouterConfig with_useful_k(RouterConfig router) {
  const ResolvedRouter parts = resolve(router);
  if (parts.dense() || !parts.traits.has_k) return router;
  const RouterShape shape = router_shape(small_model(router).resolved().moe_options(0));
  const Router made(parts, shape, make_balancers(parts, shape));
  const RoutingContext begin{.total_steps = 1000, .training = true};
  if (made.selector().nominal_k(begin) != router.k)
    router.k = static_cast<double>(kExperts);
  else if (gates_are_constant(parts, shape))
    router.k = 2;
  return router;
}

}  // namespace

RouterConfig example_by_parts(const std::string& part) {
  const bool is_scorer = scorer_registry().contains(part),
             is_selector = selector_registry().contains(part);
  for (const auto& scorer : scorer_registry().names())
    for (const auto& selector : selector_registry().names()) {
      if ((is_scorer && scorer != part) || (is_selector && selector != part)) continue;
      std::vector<std::string> balancers;
      if (balancer_registry().contains(part)) balancers.push_back(part);
      if (compatible(scorer, selector, balancers).empty())
        return with_useful_k({.method = no_router().method,
                              .scorer = scorer,
                              .selector = selector,
                              .balancers = std::move(balancers)});
    }
  fail("'", part, "' goes with no other part");
}

RouterConfig example_router(const std::string& name) {
  if (method_registry().contains(name)) return with_useful_k({.method = name});
  auto methods = methods_with(name);
  const bool part = scorer_registry().contains(name) || selector_registry().contains(name) ||
                    balancer_registry().contains(name);
  if (!part) fail_unknown_name(name, "NAME");
  if (methods.empty()) return example_by_parts(name);
  const std::string usual = RouterConfig().method;
  if (std::ranges::find(methods, usual) != methods.end()) return with_useful_k({.method = usual});
  // The method with the fewest balancers.
  std::ranges::stable_sort(methods, {}, [](const std::string& method) {
    return method_registry().at(method).balancers.size();
  });
  return with_useful_k({.method = methods.front()});
}

std::string router_recipe(const RouterConfig& router) {
  const ResolvedRouter parts = resolve(router);
  const bool by_parts = !router.scorer.empty();
  Writer out;
  for (const auto& field : describe_config<Recipe>()) {
    const std::string& path = field.path;
    const bool names_parts = path == "model.router.scorer" || path == "model.router.selector" ||
                             path == "model.router.balancers";
    const bool shown = path == "model.vocab" || path == "data.corpus" ||
                       (path == "model.moe.experts" && !parts.dense()) ||
                       (path == "model.router.method" && !by_parts) || (names_parts && by_parts) ||
                       (path == "model.router.k" && !parts.dense());
    if (shown) out.key(field, chosen_value(path, router, parts), true);
    if (path == "model.router.<part>")
      for_options(parts, [&](const FieldDescription& option, const std::string& value) {
        out.key(option, value, true);
      });
  }
  return std::move(out).take();
}

namespace {

/// The beginning of a template for which the caller gives no sentences.
std::vector<std::string> about_template(const std::string& method) {
  const Method& entry = method_registry().at(method);
  return {
      concat("A recipe for method ", method, ": ", entry.summary, "."),
      concat("Source: ", entry.source, "."),
      "Train it with `penstock train FILE --set data.corpus=CORPUS --out RUN`. What it comes to: "
      "`penstock info FILE`.",
      "Keys with a value are those that most people change first. A key behind '#' stands at "
      "its default; take the '#' away to change it."};
}

}  // namespace

std::string recipe_template(const std::string& method, const KeyValues& values,
                            const std::vector<std::string>& about) {
  method_named(method, "template");
  const RouterConfig router = example_router(method);
  const ResolvedRouter parts = resolve(router);
  Writer out;
  for (const auto& sentence : about.empty() ? about_template(method) : about) out.comment(sentence);
  for (const auto& field : describe_config<Recipe>()) {
    const std::string& path = field.path;
    if (path == "model.router.<part>") {
      for_options(parts, [&](const FieldDescription& option, const std::string& value) {
        out.key(option, value, false);
      });
      continue;
    }
    const auto given = values.find(path);
    const std::string chosen = given != values.end() ? value_text(ConfigNode(given->second))
                                                     : chosen_value(path, router, parts),
                      value = chosen.empty() ? field.default_value : chosen;
    const bool of_experts = path.starts_with("model.moe.") || path == "model.router.k";
    const bool first = kFirst.contains(path) && !(parts.dense() && of_experts);
    if (!value.empty()) out.key(field, value, first || given != values.end());
  }
  return std::move(out).take();
}

std::string short_recipe(const KeyValues& values, const std::vector<std::string>& about) {
  Writer out;
  for (const auto& sentence : about) out.comment(sentence);
  for (const auto& field : describe_config<Recipe>())
    if (const auto given = values.find(field.path); given != values.end())
      out.key(field, value_text(ConfigNode(given->second)), true);
  return std::move(out).take();
}

}  // namespace penstock
