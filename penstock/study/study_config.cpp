// Study TOML to StudyConfig.
#include "penstock/study/study_config.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/io/toml.h"

namespace penstock::study {
namespace {

struct StudyFields {
  std::string name, title, claim, base, eval_checkpoint = "final", reference,
                                        measure = "bits_per_byte";
  std::vector<std::int64_t> seeds{1}, eval_k;
  Baseline baseline;
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "short name; the default output folder"});
    v("title", title, {.help = "heading of the report"});
    v("claim", claim, {.help = "what the study asks"});
    v("base", base, {.help = "recipe of every variant that names none"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v("eval_k", eval_k,
      {.help = "experts per token that finished runs are measured with", .min = 1});
    v("eval_checkpoint", eval_checkpoint,
      {.help = "which checkpoint that is", .choices = {"final", "best"}});
    v("reference", reference, {.help = "variant that the others are compared with"});
    v("measure", measure,
      {.help = "figure of the tables by k", .choices = {"bits_per_byte", "perplexity"}});
    v("baseline", baseline);
    v.rest(tables, "set, variants, scale");
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
    v.rest(tables, "set, published");
  }
};

/// What a scale says in place of the study, and lays over it.
struct ScaleFields {
  std::string claim, base;
  std::optional<std::vector<std::int64_t>> seeds, eval_k;
  Baseline baseline;
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("claim", claim, {.help = "what the study asks at this scale"});
    v("base", base, {.help = "recipe of every variant at this scale, instead of those they name"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v("eval_k", eval_k, {.help = "as the study's", .min = 1});
    v("baseline", baseline);
    v.rest(tables, "set, variants");
  }
};

/// The scale in use.
struct Scale {
  std::string name;  // empty: the study has none
  ScaleFields fields;
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

void lay_set_over(ConfigNode& recipe, const std::map<std::string, ConfigNode>& tables) {
  if (const auto it = tables.find("set"); it != tables.end()) lay_over(recipe, it->second, "");
}

/// The scale that was asked for, "desk" where none was, nothing where the file has none.
Scale read_scale(const StudyFields& fields, const std::string& path, const std::string& asked) {
  const auto scales = fields.tables.find("scale");
  if (scales == fields.tables.end()) {
    PENSTOCK_CHECK(asked.empty(), path, ": --scale ", asked,
                   ": this study has one scale only; leave --scale away");
    return {};
  }
  std::string names;
  for (const auto& [name, node] : scales->second.table())
    names += (names.empty() ? "" : ", ") + name;
  const std::string name = asked.empty() ? "desk" : asked;
  const ConfigNode* const node = scales->second.find(name);
  PENSTOCK_CHECK(node, path, ": there is no scale '", name, "'; choose with --scale from: ", names);
  check_name(name, node->origin());
  Scale scale{.name = name, .fields = read_config<ScaleFields>(*node, "scale." + name)};
  refuse_other_tables(scale.fields.tables,
                      {"set", "variants", "claim", "base", "seeds", "eval_k", "baseline"},
                      "scale." + name + ".");
  return scale;
}

/// What the scale lays over that variant, or nothing.
std::map<std::string, ConfigNode> scaled_variant(const Scale& scale, const std::string& variant) {
  const auto variants = scale.fields.tables.find("variants");
  if (variants == scale.fields.tables.end()) return {};
  const ConfigNode* const node = variants->second.find(variant);
  if (!node) return {};
  const std::string below = "scale." + scale.name + ".variants." + variant + ".";
  std::map<std::string, ConfigNode> tables;
  for (const auto& [key, value] : node->table()) tables[key] = value;
  refuse_other_tables(tables, {"set"}, below);
  return tables;
}

std::map<std::int64_t, double> read_published(const ConfigNode& node, const std::string& below) {
  std::map<std::int64_t, double> out;
  for (const auto& [name, value] : node.table()) {
    const std::int64_t k = k_of_name(name);
    PENSTOCK_CHECK(k >= 0, value.origin(), ": ", below, name,
                   ": name numbers of experts, k1, k2 and so on, or all");
    const auto* whole = std::get_if<std::int64_t>(&value.value());
    const auto* real = std::get_if<double>(&value.value());
    PENSTOCK_CHECK(whole || real, value.origin(), ": ", below, name, ": expected a number, found ",
                   value.type_name());
    out[k] = real ? *real : static_cast<double>(*whole);
  }
  return out;
}

Variant read_variant(const std::string& name, const ConfigNode& node, const StudyFields& fields,
                     const Scale& scale, const std::filesystem::path& folder,
                     std::span<const std::string> overrides, Comparison& comparison) {
  check_name(name, node.origin());
  const auto own = read_config<VariantFields>(node, "variants." + name);
  refuse_other_tables(own.tables, {"set", "published", "label", "recipe", "match_compute"},
                      "variants." + name + ".");
  const std::string& usual = own.recipe.empty() ? fields.base : own.recipe;
  const std::string& file = scale.fields.base.empty() ? usual : scale.fields.base;
  PENSTOCK_CHECK(!file.empty(), node.origin(), ": variant '", name,
                 "' has no recipe; give it one, or give the study a base");
  Variant variant{.name = name,
                  .label = own.label.empty() ? name : own.label,
                  .recipe = read_toml((folder / file).string()),
                  .match_compute = own.match_compute};
  lay_set_over(variant.recipe, fields.tables);
  lay_set_over(variant.recipe, scale.fields.tables);
  lay_set_over(variant.recipe, own.tables);
  lay_set_over(variant.recipe, scaled_variant(scale, name));
  if (const auto it = own.tables.find("published"); it != own.tables.end())
    comparison.published[name] = read_published(it->second, "variants." + name + ".published.");
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

void check_known(const StudyConfig& study, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& variant : study.variants) names.push_back(variant.name);
  if (std::ranges::find(names, name) != names.end()) return;
  const std::string nearest = nearest_name(name, names);
  fail(where, " names '", name, "', which is not a variant of this study",
       nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
}

void check_no_duplicates(const std::vector<std::int64_t>& values, const std::string& what,
                         const std::string& one) {
  PENSTOCK_CHECK(std::set(values.begin(), values.end()).size() == values.size(), what,
                 " has the same ", one, " twice");
}

/// What the study asks, measures and compares, before its variants are known.
StudyConfig study_of(const StudyFields& fields, const Scale& scale, const std::string& path) {
  const ScaleFields& over = scale.fields;
  StudyConfig study{.path = path,
                    .name = fields.name,
                    .title = fields.title,
                    .claim = over.claim.empty() ? fields.claim : over.claim,
                    .scale = scale.name,
                    .seeds = over.seeds.value_or(fields.seeds),
                    .eval_k = over.eval_k.value_or(fields.eval_k),
                    .eval_checkpoint = fields.eval_checkpoint,
                    .comparison = {.measure = fields.measure,
                                   .reference = fields.reference,
                                   .baseline = over.baseline.bits_per_byte > 0 ? over.baseline
                                                                               : fields.baseline}};
  if (study.name.empty()) study.name = std::filesystem::path(path).stem().string();
  check_name(study.name, path + ": name");
  if (study.title.empty()) study.title = study.name;
  PENSTOCK_CHECK(!study.seeds.empty(), path, ": seeds is empty; give at least one");
  check_no_duplicates(study.seeds, path + ": seeds", "seed");
  check_no_duplicates(study.eval_k, path + ": eval_k", "number");
  return study;
}

}  // namespace

StudyConfig read_study(const std::string& path, std::span<const std::string> overrides,
                       const std::string& asked_scale) {
  const ConfigNode root = read_toml(path);
  const auto fields = read_config<StudyFields>(root);
  refuse_other_tables(fields.tables,
                      {"set", "variants", "scale", "name", "title", "claim", "base", "seeds",
                       "eval_k", "eval_checkpoint", "reference", "measure", "baseline"},
                      "");
  const auto variants = fields.tables.find("variants");
  PENSTOCK_CHECK(variants != fields.tables.end() && !variants->second.table().empty(), path,
                 ": a study needs at least one [variants.NAME] table");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const Scale scale = read_scale(fields, path, asked_scale);
  StudyConfig study = study_of(fields, scale, path);

  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, node] : variants->second.table()) {
    PENSTOCK_CHECK(node.is_table(), node.origin(), ": variants.", name,
                   ": expected a table, found ", node.type_name());
    order.emplace_back(line_of(node), name);
  }
  std::ranges::sort(order);
  for (const auto& [line, name] : order)
    study.variants.push_back(read_variant(name, *variants->second.find(name), fields, scale, folder,
                                          overrides, study.comparison));
  check_matches(study, variants->second);
  std::string& reference = study.comparison.reference;
  if (reference.empty()) reference = study.variants.front().name;
  check_known(study, reference, path + ": reference");
  if (const auto it = scale.fields.tables.find("variants"); it != scale.fields.tables.end())
    for (const auto& [name, node] : it->second.table())
      check_known(study, name, node.origin() + ": scale." + scale.name + ".variants");
  return study;
}

}  // namespace penstock::study
