#include "penstock/study/config/settle_variants.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/study/config/named_tables.h"

namespace penstock::study {
namespace {

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

/// Checks the `from` of each variant. If the scale names a model, it replaces the variants that
/// others begin with.
void settle_beginnings(StudyConfig& study, const ScaleFields& scale, const ConfigNode& variants) {
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
  if (!scale.from.empty()) {
    std::erase_if(study.variants,
                  [&](const Variant& variant) { return beginnings.contains(variant.name); });
    for (auto& variant : study.variants)
      if (!variant.from.empty()) {
        variant.from = scale.from;
        variant.from_model = true;
      }
  }
  for (const auto& variant : study.variants)
    if (!variant.from.empty()) study.comparison.begins_with[variant.name] = variant.from;
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

}  // namespace

void settle_variants(StudyConfig& study, const StudyFields& fields, const ScaleFields& scale) {
  const ConfigNode& variants = fields.comparison.variants;
  for (const auto& [name, node] : scale.comparison.variants.table())
    check_known(study, name, node.origin() + ": scale." + scale.name + ".variants");
  const std::vector<std::string>& only =
      scale.comparison.only.empty() ? fields.comparison.only : scale.comparison.only;
  pick(study, only);
  settle_beginnings(study, scale, variants);
  keep_whole_pairs(study);
  check_matches(study, variants);
  std::string& reference = study.comparison.reference;
  if (reference.empty()) reference = study.variants.front().name;
  check_taken(study, variants, reference, study.path + ": reference");
  for (const auto& name : study.comparison.baseline.except)
    if (only.empty())  // otherwise the name may be of a removed variant
      check_known(study, name, study.path + ": baseline.except");
}

}  // namespace penstock::study
