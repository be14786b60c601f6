#include "penstock/routers/option_changes.h"

#include <algorithm>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/resolve.h"

namespace penstock {
namespace {

constexpr const char *kRenormalise = "renormalise", *kSoftmax = "softmax", *kBias = "bias",
                     *kTrainNetwork = "train_network";

void set_option(RouterConfig& router, const std::string& part, const std::string& key,
                ConfigNode::Value value) {
  ConfigNode& node = router.parts[part];
  if (node.empty()) node = ConfigNode(ConfigNode::Table{});
  node.set(key, std::move(value));
}

template <class Part>
const FieldDescription* field_of(const Registry<PartEntry<Part>>& registry, const std::string& part,
                                 const std::string& option) {
  const auto& fields = registry.at(part).fields;
  const auto found = std::ranges::find(fields, option, &FieldDescription::path);
  return found == fields.end() ? nullptr : &*found;
}

bool sets(const std::map<std::string, ConfigNode>& parts, const std::string& part,
          const char* option) {
  const auto found = parts.find(part);
  return found != parts.end() && !found->second.empty() && found->second.find(option);
}

}  // namespace

bool can_renormalise(const std::string& selector) {
  return field_of(selector_registry(), selector, kRenormalise) ||
         field_of(selector_registry(), selector, kSoftmax);
}

void renormalise(RouterConfig& router, const std::string& selector) {
  PENSTOCK_ASSERT(can_renormalise(selector));
  if (field_of(selector_registry(), selector, kRenormalise))
    set_option(router, selector, kRenormalise, true);
  else
    set_option(router, selector, kSoftmax, std::string("after"));
}

void leave_out_default_bias(RouterConfig& router, const std::string& scorer) {
  const Method& method = method_registry().at(router.method);
  if (sets(router.parts, scorer, kBias) || sets(method.options, scorer, kBias)) return;
  const FieldDescription* const bias = field_of(scorer_registry(), scorer, kBias);
  if (bias && bias->default_value == "true") set_option(router, scorer, kBias, false);
}

std::string bias_key(const RouterConfig& router) {
  const std::string scorer = resolve(router).scorer;
  return field_of(scorer_registry(), scorer, kBias) ? "model.router." + scorer + "." + kBias : "";
}

bool learns_bias(const RouterConfig& router) {
  const ResolvedRouter resolved = resolve(router);
  if (resolved.dense()) return false;
  const ConfigNode& options = resolved.options.at(resolved.scorer);
  if (!scorer_registry().at(resolved.scorer).traits_under(options).trainable) return false;
  const ConfigNode* const bias = options.is_table() ? options.find(kBias) : nullptr;
  const bool* const on = bias ? std::get_if<bool>(&bias->value()) : nullptr;
  return on && *on;
}

void set_heads(RouterConfig& router, const std::string& scorer, const HeadSizes& sizes) {
  PENSTOCK_ASSERT(scorer_registry().at(scorer).traits.of_heads);
  const auto set = [&](const char* option, bool wanted, ConfigNode::Value value) {
    if (wanted) set_option(router, scorer, option, std::move(value));
  };
  set("routers", sizes.routers > 0, sizes.routers);
  set("width", sizes.width > 0, sizes.width);
  set("keys", sizes.keys > 0, sizes.keys);
  set("pool", !sizes.pool.empty(), sizes.pool);
  set(kBias, sizes.bias, true);
  set("parameterisation", sizes.collapsed, std::string("collapsed"));
}

bool generates_routers(const RouterConfig& router) {
  const ResolvedRouter resolved = resolve(router);
  return !resolved.dense() && field_of(scorer_registry(), resolved.scorer, kTrainNetwork);
}

void train_network(RouterConfig& router) {
  PENSTOCK_ASSERT(generates_routers(router));
  set_option(router, resolve(router).scorer, kTrainNetwork, true);
}

}  // namespace penstock
