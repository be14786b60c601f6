#include "penstock/study/config/study_config.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/study/config/chosen_pairs.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/config/named_tables.h"
#include "penstock/study/config/published_names.h"
#include "penstock/study/config/study_fields.h"
#include "penstock/train/read_recipe.h"

namespace penstock::study {
namespace {

/// The scale in use.
struct Scale {
  std::string name;  // empty: the study has none
  ScaleFields fields;
};

/// Reads a table of the study's file, with the keys of measurements.
template <class Fields>
Fields read_with(const ConfigNode& node, const std::string& path, StudyConfig& study, KeysOf part) {
  Fields out;
  FieldReader keys(node, path);
  out.visit(keys);
  for (const auto& one : study.measurements) one->read_keys(keys, part);
  keys.finish();
  return out;
}

/// The scale that was asked for, or "desk" if none was; an empty one if the file has no scales.
Scale read_scale(const StudyFields& fields, const std::string& asked, StudyConfig& study) {
  if (fields.scale.empty()) {
    PENSTOCK_CHECK(asked.empty(), study.path, ": options.scale ", asked,
                   ": this study has one scale only; leave it out");
    return {};
  }
  std::string names;
  for (const auto& [name, node] : fields.scale.table()) names += (names.empty() ? "" : ", ") + name;
  const std::string name = asked.empty() ? "desk" : asked;
  const ConfigNode* const node = fields.scale.find(name);
  PENSTOCK_CHECK(node, study.path, ": there is no scale '", name,
                 "'; choose as options.scale from: ", names);
  check_name(name, node->origin());
  return {.name = name,
          .fields = read_with<ScaleFields>(*node, "scale." + name, study, KeysOf::scale)};
}

/// The scale's changes of the variant; empty if there are none.
RecipeChanges scaled_variant(const Scale& scale, const std::string& variant) {
  const ConfigNode* const node = scale.fields.comparison.variants.find(variant);
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
  std::string showable;
  for (const auto& one : study.measurements)
    if (const std::string words = one->showable(); !words.empty())
      showable += (showable.empty() ? "" : ", or ") + words;
  for (const auto& [name, value] : node.table())
    PENSTOCK_CHECK(is_shown(name, study), value.origin(), ": ", below, name,
                   ": is not shown by this study; name ", published_figure_names(), ", or ",
                   showable);
  return read_numbers(node, below);
}

/// Merges the variant's [upcycle] over those of the study and of the scale. Only a variant with an
/// [upcycle] of its own, in the study or in the scale, is upcycled.
void read_upcycle(Variant& variant, const StudyFields& fields, const Scale& scale,
                  const ConfigNode& own, const std::string& origin) {
  const ConfigNode scaled = scaled_variant(scale, variant.name).upcycle;
  if (own.empty() && scaled.empty()) return;
  PENSTOCK_CHECK(!variant.from.empty(), origin, ": variants.", variant.name,
                 ".upcycle: say with from = \"...\" which variant's model is upcycled");
  ConfigNode upcycle{ConfigNode::Value(ConfigNode::Table())};
  for (const auto* layer : {&fields.comparison.changes.upcycle,
                            &scale.fields.comparison.changes.upcycle, &own, &scaled})
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

void check_known(const StudyConfig& study, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& variant : study.variants) names.push_back(variant.name);
  check_is_variant(name, names, where);
}

/// Refuses a name that is no variant, and one that `only` or the scale's model leaves out.
/// @param variants  all tables of variants
void check_taken(const StudyConfig& study, const ConfigNode& variants, const std::string& name,
                 const std::string& where) {
  const bool taken = std::ranges::count(study.variants, name, &Variant::name) > 0;
  PENSTOCK_CHECK(taken || !variants.find(name), where, " names '", name,
                 "', which this study leaves out (only, or the scale's from); take it in, or name "
                 "another variant");
  check_known(study, name, where);
}

/// Checks the `from` of each variant. If the scale names a model, it replaces the variants that
/// others begin with.
void settle_beginnings(StudyConfig& study, const Scale& scale, const ConfigNode& variants) {
  std::set<std::string> beginnings;
  for (const auto& variant : study.variants)
    if (!variant.from.empty()) beginnings.insert(variant.from);
  for (const auto& variant : study.variants) {
    if (variant.from.empty()) continue;
    const std::string where = variants.find(variant.name)->origin() + ": variants." + variant.name;
    check_taken(study, variants, variant.from, where + ".from");
    const auto other = std::ranges::find(study.variants, variant.from, &Variant::name);
    PENSTOCK_CHECK(other->from.empty() && other->match_compute.empty(), where, ".from names '",
                   variant.from, "', which itself needs another variant; name one that does not");
    PENSTOCK_CHECK(variant.match_compute.empty(), where,
                   ": from does not go with match_compute; give train.steps");
  }
  if (!scale.fields.from.empty()) {
    std::erase_if(study.variants,
                  [&](const Variant& variant) { return beginnings.contains(variant.name); });
    for (auto& variant : study.variants)
      if (!variant.from.empty()) {
        variant.from = scale.fields.from;
        variant.from_model = true;
      }
  }
  for (const auto& variant : study.variants)
    if (!variant.from.empty()) study.comparison.begins_with[variant.name] = variant.from;
}

/// Refuses changes of recipes with train.seed, which `seeds` would override.
void check_no_seed(const ConfigNode& changes) {
  ConfigNode recipe{ConfigNode::Value(ConfigNode::Table())};
  lay_over(recipe, changes);
  const ConfigNode* const train = recipe.find("train");
  const ConfigNode* const seed = train ? train->find("seed") : nullptr;
  if (seed)
    fail(seed->origin(),
         ": train.seed: a study trains with the seeds of its key seeds; name them there");
}

/// @param beside  reads a file of the study's folder
Variant read_variant(const std::string& name, const ConfigNode& node, const StudyFields& fields,
                     const Scale& scale, const TomlFiles& beside, StudyConfig& study) {
  check_name(name, node.origin());
  VariantFields own;
  FieldReader keys(node, "variants." + name);
  own.visit(keys);
  for (const auto& one : study.measurements) one->read_variant(keys, name);
  keys.finish();
  const std::string& usual = own.recipe.empty() ? fields.comparison.base : own.recipe;
  const std::string& of_scale = scale.fields.comparison.base;
  const std::string& file = of_scale.empty() ? usual : of_scale;
  PENSTOCK_CHECK(!file.empty(), node.origin(), ": variant '", name,
                 "' has no recipe; give it one, or give the study a base");
  Variant variant{.name = name,
                  .label = own.label.empty() ? name : own.label,
                  .recipe = beside(file),
                  .match_compute = own.match_compute,
                  .from = own.from};
  lay_over(variant.recipe, fields.comparison.changes.set);
  lay_over(variant.recipe, scale.fields.comparison.changes.set);
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

void check_matches(const StudyConfig& study, const ConfigNode& variants) {
  for (const auto& variant : study.variants) {
    if (variant.match_compute.empty()) continue;
    const std::string where =
        variants.find(variant.name)->origin() + ": variants." + variant.name + ".match_compute";
    check_taken(study, variants, variant.match_compute, where);
    const auto other = std::ranges::find(study.variants, variant.match_compute, &Variant::name);
    PENSTOCK_CHECK(other->match_compute.empty(), where, " names '", variant.match_compute,
                   "', which itself matches another; name one with steps of its own");
  }
}

/// Fills in the study's fields that do not depend on its variants.
void take_fields(StudyConfig& study, const StudyFields& fields, const Scale& scale) {
  const ComparisonFields &own = fields.comparison, &over = scale.fields.comparison;
  study.name =
      fields.name.empty() ? std::filesystem::path(study.path).stem().string() : fields.name;
  check_name(study.name, study.path + ": name");
  study.title = fields.title.empty() ? study.name : fields.title;
  study.claim = over.claim.empty() ? own.claim : over.claim;
  study.scale = scale.name;
  study.seeds = over.seeds.value_or(*own.seeds);
  study.eval_checkpoint = fields.eval_checkpoint;
  study.report = fields.report;
  study.comparison = {.measure = fields.measure,
                      .published_as = fields.published_as,
                      .reference = over.reference.empty() ? own.reference : over.reference,
                      .baseline = over.baseline.wanted() ? over.baseline : own.baseline};
  PENSTOCK_CHECK(!study.seeds.empty(), study.path, ": seeds is empty; give at least one");
  PENSTOCK_CHECK(std::ranges::min(study.seeds) >= 0, study.path, ": seeds has ",
                 std::ranges::min(study.seeds), "; a seed is 0 or more");
  PENSTOCK_CHECK(std::set(study.seeds.begin(), study.seeds.end()).size() == study.seeds.size(),
                 study.path, ": seeds has the same seed twice");
  const Baseline& baseline = study.comparison.baseline;
  PENSTOCK_CHECK(baseline.ngram == 0 || baseline.bits_per_byte == 0, study.path,
                 ": baseline has both ngram and bits_per_byte; give one");
}

/// Reads the [closed_form] tables. They are shown only if the report asks for them.
void take_closed_forms(StudyConfig& study, const StudyFields& fields) {
  study.closed_forms =
      read_closed_forms(fields.closed_form, names_in_order(fields.comparison.variants, "variants"));
  const bool asked = std::ranges::find(study.report, kClosedForms) != study.report.end();
  PENSTOCK_CHECK(!asked || !study.closed_forms.empty(), study.path, ": report names \"",
                 kClosedForms, "\", and there is no [closed_form.NAME] table");
  // A study that is like another need not show the other's tables.
  PENSTOCK_CHECK(asked || study.closed_forms.empty() || !study.runs_of.empty(), study.path,
                 ": closed_form has tables that are not shown; add \"", kClosedForms,
                 "\" to report");
}

/// Reads the study's file. If the study is like another, merges its file over the other's, without
/// the other's name and title, and sets `runs_of` to the other's name.
ConfigNode read_tree(const std::string& path, std::string& runs_of, const TomlFiles& read) {
  ConfigNode root = read(path);
  const ConfigNode* const like = root.find("like");
  const auto* file = like ? std::get_if<std::string>(&like->value()) : nullptr;
  if (!file) return root;
  const std::filesystem::path other = std::filesystem::path(path).parent_path() / *file;
  PENSTOCK_CHECK(other.filename() == *file, like->origin(), ": like = \"", *file,
                 "\": name a study in the same folder");
  ConfigNode::Table tree = read(other.string()).table();
  PENSTOCK_CHECK(!tree.contains("like"), like->origin(), ": ", *file,
                 " is itself like another; name that one");
  const auto* name =
      tree.contains("name") ? std::get_if<std::string>(&tree["name"].value()) : nullptr;
  runs_of = name ? *name : other.stem().string();
  tree.erase("name");
  tree.erase("title");
  ConfigNode merged{ConfigNode::Value(std::move(tree))};
  merged.merge(root);
  return merged;
}

/// Returns the overrides of recipes. Measurements read the overrides that they take.
std::vector<std::string> recipe_overrides(StudyConfig& study,
                                          std::span<const std::string> overrides,
                                          const std::string& option) {
  std::vector<std::string> of_recipes, own;
  for (const auto& one : overrides) {
    const bool taken =
        std::ranges::any_of(study.measurements, [&](const auto& kind) { return kind->takes(one); });
    (taken ? own : of_recipes).push_back(one);
  }
  ConfigNode asked;
  apply_overrides(asked, own, option);
  FieldReader keys(asked, "");
  for (const auto& one : study.measurements) one->read_keys(keys, KeysOf::command_line);
  ConfigNode changes;
  apply_overrides(changes, of_recipes, option);
  check_no_seed(changes);
  return of_recipes;
}

/// Keeps only the variants that `only` names, in its order. An empty `only` keeps all variants.
void pick(StudyConfig& study, const std::vector<std::string>& only) {
  for (const auto& name : only) check_known(study, name, study.path + ": only");
  if (only.empty()) return;
  const auto place = [&](const Variant& variant) {
    return std::ranges::find(only, variant.name) - only.begin();
  };
  std::erase_if(study.variants,
                [&](const Variant& variant) { return place(variant) == std::ssize(only); });
  std::ranges::stable_sort(study.variants, {}, place);
}

/// Drops the chosen pairs of variants that `only` or the scale's model removes.
void keep_whole_pairs(StudyConfig& study) {
  const auto is_there = [&](const std::string& name) {
    return std::ranges::find(study.variants, name, &Variant::name) != study.variants.end();
  };
  std::erase_if(study.comparison.pairs, [&](const ChosenPair& pair) {
    return !std::ranges::all_of(pair.first.names, is_there) ||
           !std::ranges::all_of(pair.second.names, is_there);
  });
}

}  // namespace

bool StudyConfig::trains() const {
  return report.empty() || std::ranges::any_of(measurements, [&](const auto& one) {
           const auto words = one->report_words();
           return std::ranges::find_first_of(report, words) != report.end();
         });
}

StudyConfig read_study(const std::string& path, std::span<const std::string> overrides,
                       const std::string& asked_scale, const TomlFiles& read,
                       const std::string& option) {
  StudyConfig study{.path = path, .measurements = make_measurements()};
  const ConfigNode root = read_tree(path, study.runs_of, read);
  const auto fields = read_with<StudyFields>(root, "", study, KeysOf::study);
  const Scale scale = read_scale(fields, asked_scale, study);
  const auto of_recipes = recipe_overrides(study, overrides, option);
  take_fields(study, fields, scale);
  for (const auto& one : study.measurements) one->settle(study.report, path);
  take_closed_forms(study, fields);

  const ConfigNode& variants = fields.comparison.variants;
  const ComparisonFields& over = scale.fields.comparison;
  PENSTOCK_CHECK(!variants.table().empty() || !study.trains(), path,
                 ": a study needs at least one [variants.NAME] table");
  const auto names = names_in_order(variants, "variants");
  study.comparison.pairs = read_pairs(fields.pairs, names);
  if (variants.empty()) return study;
  const auto beside = [&](const std::string& file) {
    return read((std::filesystem::path(path).parent_path() / file).string());
  };
  check_no_seed(fields.comparison.changes.set);
  check_no_seed(over.changes.set);
  for (const auto& name : names) {
    study.variants.push_back(
        read_variant(name, *variants.find(name), fields, scale, beside, study));
    apply_overrides(study.variants.back().recipe, of_recipes, option);
  }
  for (const auto& [name, node] : over.variants.table())
    check_known(study, name, node.origin() + ": scale." + scale.name + ".variants");
  const std::vector<std::string>& only = over.only.empty() ? fields.comparison.only : over.only;
  pick(study, only);
  settle_beginnings(study, scale, variants);
  keep_whole_pairs(study);
  check_matches(study, variants);
  std::string& reference = study.comparison.reference;
  if (reference.empty()) reference = study.variants.front().name;
  check_taken(study, variants, reference, path + ": reference");
  for (const auto& name : study.comparison.baseline.except)
    if (only.empty())  // otherwise the name may be of a removed variant
      check_known(study, name, path + ": baseline.except");
  return study;
}

}  // namespace penstock::study
