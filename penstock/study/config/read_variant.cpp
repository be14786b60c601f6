#include "penstock/study/config/read_variant.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/joined.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/config/named_tables.h"
#include "penstock/study/config/published_names.h"
#include "penstock/train/read_recipe.h"

namespace penstock::study {
namespace {

/// The scale's changes of the variant; empty if there are none.
RecipeChanges scaled_variant(const ScaleFields& scale, const std::string& variant) {
  const ConfigNode* const node = scale.comparison.variants.find(variant);
  if (!node) return {};
  return read_config<RecipeChanges>(*node, "scale." + scale.name + ".variants." + variant);
}

/// Whether the study shows numbers of this name.
bool is_shown(const std::string& name, const StudyConfig& study) {
  if (name == "result") return !study.comparison.published_as.empty();
  if (is_published_figure(name)) return true;
  if (std::ranges::find(study.report, "settings") != study.report.end() && is_shown_setting(name))
    return true;
  return std::ranges::any_of(study.measurements, [&](const auto& one) { return one->shows(name); });
}

std::map<std::string, double> read_published(const ConfigNode& node, const std::string& below,
                                             const StudyConfig& study) {
  std::string showable =
      concat("a setting with report = [\"settings\"] (",
             joined(recipe_columns(), ", ", &ShownSetting::name), "), or result with published_as");
  for (const auto& one : study.measurements)
    if (const std::string words = one->showable(); !words.empty()) showable += ", or " + words;
  for (const auto& [name, value] : node.table())
    PENSTOCK_CHECK(is_shown(name, study), value.origin(), ": ", below, name,
                   ": is not shown by this study; name ", published_figure_names(), ", or ",
                   showable);
  return read_numbers(node, below);
}

/// Merges the variant's [upcycle] over those of the study and of the scale. Only a variant with an
/// [upcycle] of its own, in the study or in the scale, is upcycled.
void read_upcycle(Variant& variant, const StudyFields& fields, const ScaleFields& scale,
                  const ConfigNode& own, const std::string& origin) {
  const ConfigNode scaled = scaled_variant(scale, variant.name).upcycle;
  if (own.empty() && scaled.empty()) return;
  PENSTOCK_CHECK(!variant.from.empty(), origin, ": variants.", variant.name,
                 ".upcycle: say with from = \"...\" which variant's model is upcycled");
  ConfigNode upcycle{ConfigNode::Value(ConfigNode::Table())};
  for (const auto* layer :
       {&fields.comparison.changes.upcycle, &scale.comparison.changes.upcycle, &own, &scaled})
    upcycle.merge(*layer);
  read_config<UpcycleOptions>(upcycle, "variants." + variant.name + ".upcycle");
  variant.upcycle = std::move(upcycle);
}

/// Moves [model] out of the `set` of a variant that begins with a model, and returns it. Throws
/// Error for keys that may not change.
ConfigNode take_retuned(const std::string& variant, ConfigNode& set) {
  ConfigNode::Table tables = set.table();
  const auto found = tables.find("model");
  if (found == tables.end()) return {};
  ConfigNode model = found->second;
  for (const auto& [key, text] : flatten(model))
    PENSTOCK_CHECK(may_differ_from_initial_model("model." + key), "variants.", variant,
                   ".set: model.", key,
                   ": the model that this variant begins with says what it is; only coefficients "
                   "of its router's losses may change, such as model.router.z-loss.coefficient");
  tables.erase(found);
  set = ConfigNode(ConfigNode::Value(std::move(tables)));
  return model;
}

/// Reads the variant's recipe. If it is the variant's own, errors begin with the key's line.
ConfigNode read_recipe_of(const ConfigNode& variant, const std::string& name,
                          const std::string& file, const TomlFiles& beside) {
  const ConfigNode* const own = variant.find("recipe");
  if (!own || !std::holds_alternative<std::string>(own->value()) ||
      std::get<std::string>(own->value()) != file)
    return beside(file);
  try {
    return beside(file);
  } catch (const Error& error) {
    fail(own->origin(), ": variants.", name, ".recipe: ", error.what());
  }
}

}  // namespace

void check_no_seed(const ConfigNode& changes) {
  ConfigNode recipe{ConfigNode::Value(ConfigNode::Table())};
  lay_over(recipe, changes);
  const ConfigNode* const train = recipe.find("train");
  const ConfigNode* const seed = train ? train->find("seed") : nullptr;
  if (seed)
    fail(seed->origin(),
         ": train.seed: a study trains with the seeds of its key seeds; name them there");
}

Variant read_variant(const std::string& name, const ConfigNode& node, const StudyFields& fields,
                     const ScaleFields& scale, const TomlFiles& beside, StudyConfig& study) {
  check_name(name, node.origin());
  VariantFields own;
  FieldReader keys(node, "variants." + name);
  own.visit(keys);
  for (const auto& one : study.measurements) one->read_variant(keys, name);
  keys.finish();
  const std::string& usual = own.recipe.empty() ? fields.comparison.base : own.recipe;
  const std::string& of_scale = scale.comparison.base;
  const std::string& file = of_scale.empty() ? usual : of_scale;
  PENSTOCK_CHECK(!file.empty(), node.origin(), ": variant '", name,
                 "' has no recipe; give it one, or give the study a base");
  Variant variant{.name = name,
                  .label = own.label.empty() ? name : own.label,
                  .recipe = read_recipe_of(node, name, file, beside),
                  .match_compute = own.match_compute,
                  .from = own.from};
  lay_over(variant.recipe, fields.comparison.changes.set);
  lay_over(variant.recipe, scale.comparison.changes.set);
  ConfigNode set{ConfigNode::Value(ConfigNode::Table())};  // of this variant alone
  lay_over(set, own.changes.set);
  lay_over(set, scaled_variant(scale, name).set);
  check_no_seed(set);
  if (!variant.from.empty())
    variant.retuned = naming_origins(set, [&] { return take_retuned(name, set); });
  variant.recipe.merge(set);
  read_upcycle(variant, fields, scale, own.changes.upcycle, node.origin());
  if (!own.published.empty())
    study.comparison.published[name] =
        read_published(own.published, "variants." + name + ".published.", study);
  return variant;
}

}  // namespace penstock::study
