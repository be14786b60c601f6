// Study TOML to StudyConfig.
#include "penstock/study/study_config.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/io/toml.h"

namespace penstock::study {
namespace {

struct StudyFields {
  std::string name, title, claim, base;
  std::vector<std::int64_t> seeds{1};
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "short name; the default output folder"});
    v("title", title, {.help = "heading of the report"});
    v("claim", claim, {.help = "what the study asks"});
    v("base", base, {.help = "recipe of every variant that names none"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v.rest(tables, "set, variants");
  }
};

struct VariantFields {
  std::string label, recipe, match_compute;
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name in tables and plots"});
    v("recipe", recipe, {.help = "recipe file, instead of base"});
    v("match_compute", match_compute, {.help = "variant whose training FLOPs this one spends"});
    v.rest(tables, "set");
  }
};

void refuse_other_tables(const std::map<std::string, ConfigNode>& tables,
                         const std::vector<std::string>& allowed, const std::string& below) {
  for (const auto& [key, node] : tables) {
    if (std::ranges::find(allowed, key) != allowed.end()) continue;
    const std::string nearest = nearest_name(key, allowed);
    fail(node.origin(), ": ", below, key, ": unknown key",
         nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
}

// Both set = {"model.d_model" = 64} and [set.model] d_model = 64.
void lay_over(ConfigNode& recipe, const ConfigNode& over, const std::string& prefix) {
  for (const auto& [key, node] : over.table()) {
    if (node.is_table())
      lay_over(recipe, node, prefix + key + ".");
    else
      recipe.set(prefix + key, node);
  }
}

// The line in "study.toml:12", so that variants keep the file's order (tables come sorted by name).
int line_of(const ConfigNode& node) {
  const std::string& origin = node.origin();
  const auto colon = origin.rfind(':');
  int line = 0;
  if (colon != std::string::npos)
    std::from_chars(origin.data() + colon + 1, origin.data() + origin.size(), line);
  return line;
}

void check_name(const std::string& name, const std::string& where) {
  const bool fits = !name.empty() && name.size() <= 64 && name[0] != '.' &&
                    std::ranges::all_of(name, [](unsigned char c) {
                      return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '+';
                    });
  PENSTOCK_CHECK(fits, where, ": '", name,
                 "' names a folder; use letters, digits, '-', '_', '.' and '+'");
}

Variant read_variant(const std::string& name, const ConfigNode& node, const StudyFields& fields,
                     const std::filesystem::path& folder, std::span<const std::string> overrides) {
  check_name(name, node.origin());
  const auto own = read_config<VariantFields>(node, "variants." + name);
  refuse_other_tables(own.tables, {"set", "label", "recipe", "match_compute"},
                      "variants." + name + ".");
  const std::string file = own.recipe.empty() ? fields.base : own.recipe;
  PENSTOCK_CHECK(!file.empty(), node.origin(), ": variant '", name,
                 "' has no recipe; give it one, or give the study a base");
  Variant variant{.name = name,
                  .label = own.label.empty() ? name : own.label,
                  .recipe = read_toml((folder / file).string()),
                  .match_compute = own.match_compute};
  if (const auto it = fields.tables.find("set"); it != fields.tables.end())
    lay_over(variant.recipe, it->second, "");
  if (const auto it = own.tables.find("set"); it != own.tables.end())
    lay_over(variant.recipe, it->second, "");
  apply_overrides(variant.recipe, overrides);
  return variant;
}

void check_matches(const StudyConfig& study, const ConfigNode& variants) {
  std::map<std::string, std::string> matches;
  for (const auto& variant : study.variants) matches[variant.name] = variant.match_compute;
  for (const auto& variant : study.variants) {
    if (variant.match_compute.empty()) continue;
    const std::string where = variants.find(variant.name)->origin();
    PENSTOCK_CHECK(matches.contains(variant.match_compute), where, ": variants.", variant.name,
                   ".match_compute names '", variant.match_compute,
                   "', which is not a variant of this study");
    PENSTOCK_CHECK(matches[variant.match_compute].empty(), where, ": variants.", variant.name,
                   ".match_compute names '", variant.match_compute,
                   "', which itself matches another; name one with steps of its own");
  }
}

}  // namespace

StudyConfig read_study(const std::string& path, std::span<const std::string> overrides) {
  const ConfigNode root = read_toml(path);
  const auto fields = read_config<StudyFields>(root);
  refuse_other_tables(fields.tables, {"set", "variants", "name", "title", "claim", "base", "seeds"},
                      "");
  const auto variants = fields.tables.find("variants");
  PENSTOCK_CHECK(variants != fields.tables.end() && !variants->second.table().empty(), path,
                 ": a study needs at least one [variants.NAME] table");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();

  StudyConfig study{
      .path = path, .name = fields.name, .title = fields.title, .claim = fields.claim};
  if (study.name.empty()) study.name = std::filesystem::path(path).stem().string();
  check_name(study.name, path + ": name");
  if (study.title.empty()) study.title = study.name;
  study.seeds = fields.seeds;
  PENSTOCK_CHECK(!study.seeds.empty(), path, ": seeds is empty; give at least one");
  PENSTOCK_CHECK(std::set(study.seeds.begin(), study.seeds.end()).size() == study.seeds.size(),
                 path, ": seeds has the same seed twice");

  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, node] : variants->second.table()) {
    PENSTOCK_CHECK(node.is_table(), node.origin(), ": variants.", name,
                   ": expected a table, found ", node.type_name());
    order.emplace_back(line_of(node), name);
  }
  std::ranges::sort(order);
  for (const auto& [line, name] : order)
    study.variants.push_back(
        read_variant(name, *variants->second.find(name), fields, folder, overrides));
  check_matches(study, variants->second);
  return study;
}

}  // namespace penstock::study
