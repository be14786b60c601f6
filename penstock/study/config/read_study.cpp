// read_study() of study_config.h: the keys of the study and of its scale, and the order in which
// the parts of the file are read.
#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <variant>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/joined.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/study/config/chosen_pairs.h"
#include "penstock/study/config/named_tables.h"
#include "penstock/study/config/read_variant.h"
#include "penstock/study/config/settle_variants.h"
#include "penstock/study/config/study_config.h"
#include "penstock/study/config/study_fields.h"

namespace penstock::study {
namespace {

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
ScaleFields read_scale(const StudyFields& fields, const std::string& asked, StudyConfig& study) {
  if (fields.scale.empty()) {
    PENSTOCK_CHECK(asked.empty(), study.path, ": options.scale ", asked,
                   ": this study has one scale only; leave it out");
    return {};
  }
  const std::string name = asked.empty() ? "desk" : asked;
  const ConfigNode* const node = fields.scale.find(name);
  PENSTOCK_CHECK(node, study.path, ": there is no scale '", name,
                 "'; choose as options.scale from: ",
                 joined(fields.scale.table(), ", ", &ConfigNode::Table::value_type::first));
  check_name(name, node->origin());
  auto out = read_with<ScaleFields>(*node, "scale." + name, study, KeysOf::scale);
  out.name = name;
  return out;
}

/// Fills in the study's fields that do not depend on its variants.
void take_fields(StudyConfig& study, const StudyFields& fields, const ScaleFields& scale) {
  const ComparisonFields &own = fields.comparison, &over = scale.comparison;
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

/// Refuses a recipe, which has a model of its own and no variants.
void check_is_study(const ConfigNode& root, const std::string& path) {
  PENSTOCK_CHECK(root.find("variants") || !(root.find("model") || root.find("train")), path,
                 ": is a recipe, not a study, which has [variants.NAME] tables; train it with "
                 "`penstock train ",
                 shell_quoted(path), "`");
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

}  // namespace

StudyConfig read_study(const std::string& path, std::span<const std::string> overrides,
                       const std::string& asked_scale, const TomlFiles& read,
                       const std::string& option) {
  StudyConfig study{.path = path, .measurements = make_measurements()};
  const ConfigNode root = read_tree(path, study.runs_of, read);
  check_is_study(root, path);
  const auto fields = read_with<StudyFields>(root, "", study, KeysOf::study);
  const ScaleFields scale = read_scale(fields, asked_scale, study);
  const auto of_recipes = recipe_overrides(study, overrides, option);
  take_fields(study, fields, scale);
  for (const auto& one : study.measurements) one->settle(study.report, path);
  take_closed_forms(study, fields);

  const ConfigNode& variants = fields.comparison.variants;
  PENSTOCK_CHECK(!variants.table().empty() || !study.trains(), path,
                 ": a study needs at least one [variants.NAME] table");
  const auto names = names_in_order(variants, "variants");
  study.comparison.pairs = read_pairs(fields.pairs, names);
  if (variants.empty()) return study;
  const auto beside = [&](const std::string& file) {
    return read((std::filesystem::path(path).parent_path() / file).string());
  };
  check_no_seed(fields.comparison.changes.set);
  check_no_seed(scale.comparison.changes.set);
  for (const auto& name : names) {
    study.variants.push_back(
        read_variant(name, *variants.find(name), fields, scale, beside, study));
    apply_overrides(study.variants.back().recipe, of_recipes, option);
  }
  settle_variants(study, fields, scale);
  return study;
}

}  // namespace penstock::study
