// Study TOML to StudyConfig.
#include "penstock/study/study_config.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/io/toml.h"
#include "penstock/study/closed_tables.h"
#include "penstock/study/config_hash.h"
#include "penstock/study/start_model.h"
#include "penstock/study/study_tables.h"
#include "penstock/train/recipe.h"

namespace penstock::study {
namespace {

struct StudyFields {
  std::string name, title, claim, base, like, published_as, eval_checkpoint = "final", reference,
                                                            measure = "bits_per_byte";
  std::vector<std::int64_t> seeds{1}, eval_k;
  std::vector<std::string> only, report;
  Baseline baseline;
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "short name; the default output folder"});
    v("title", title, {.help = "heading of the report"});
    v("claim", claim, {.help = "what the study asks"});
    v("base", base, {.help = "recipe of every variant that names none"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v("like", like,
      {.help = "study in the same folder whose variants, scales and runs these are; what this file "
               "says is laid over it"});
    v("only", only, {.help = "the variants that this study is of, in this order; none: all"});
    v("report", report,
      {.help = "what is shown besides", .choices = {"entropy", "samples", "settings", "A3", "A4"}});
    v("eval_k", eval_k,
      {.help = "experts per token that finished runs are measured with", .min = 1});
    v("eval_checkpoint", eval_checkpoint,
      {.help = "which checkpoint that is", .choices = {"final", "best"}});
    v("reference", reference, {.help = "variant that the others are compared with"});
    v("measure", measure,
      {.help = "figure of the tables by k", .choices = {"bits_per_byte", "perplexity"}});
    v("published_as", published_as,
      {.help = "what published = {result = ...} of the variants is, shown beside their results"});
    v("baseline", baseline);
    v.rest(tables, "set, upcycle, variants, finetune, scale");
  }
};

struct VariantFields {
  std::string label, recipe, match_compute, from;
  bool fold = false;
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name in tables and plots"});
    v("recipe", recipe, {.help = "recipe file, instead of base"});
    v("match_compute", match_compute, {.help = "variant whose training FLOPs this one spends"});
    v("from", from,
      {.help = "variant whose last checkpoint of the same seed training begins with"});
    v("fold", fold, {.help = "also measure by k with each router folded into one matrix"});
    v.rest(tables, "set, published, upcycle");
  }
};

/// What a scale says in place of the study, and lays over it.
struct ScaleFields {
  std::string claim, base, from;
  std::optional<std::vector<std::int64_t>> seeds, eval_k;
  Baseline baseline;
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("claim", claim, {.help = "what the study asks at this scale"});
    v("base", base, {.help = "recipe of every variant at this scale, instead of those they name"});
    v("from", from,
      {.help = "model that stands, at this scale, for the variant that others begin with"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v("eval_k", eval_k, {.help = "as the study's", .min = 1});
    v("baseline", baseline);
    v.rest(tables, "set, upcycle, variants, finetune");
  }
};

/// The scale in use.
struct Scale {
  std::string name;  // empty: the study has none
  ScaleFields fields;
};

void lay_set_over(ConfigNode& recipe, const std::map<std::string, ConfigNode>& tables) {
  if (const auto it = tables.find("set"); it != tables.end()) lay_over(recipe, it->second);
}

/// The scale that was asked for, "desk" where none was, nothing where the file has none.
Scale read_scale(const StudyFields& fields, const std::string& path, const std::string& asked) {
  const auto scales = fields.tables.find("scale");
  if (scales == fields.tables.end()) {
    PENSTOCK_CHECK(asked.empty(), path, ": options.scale ", asked,
                   ": this study has one scale only; leave it away");
    return {};
  }
  std::string names;
  for (const auto& [name, node] : scales->second.table())
    names += (names.empty() ? "" : ", ") + name;
  const std::string name = asked.empty() ? "desk" : asked;
  const ConfigNode* const node = scales->second.find(name);
  PENSTOCK_CHECK(node, path, ": there is no scale '", name,
                 "'; choose as options.scale from: ", names);
  check_name(name, node->origin());
  Scale scale{.name = name, .fields = read_config<ScaleFields>(*node, "scale." + name)};
  refuse_other_tables(scale.fields.tables,
                      {"set", "upcycle", "variants", "finetune", "claim", "base", "from", "seeds",
                       "eval_k", "baseline"},
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
  refuse_other_tables(tables, {"set", "upcycle"}, below);
  return tables;
}

/// Whether numbers of that name are shown somewhere.
bool is_shown(const std::string& name, const StudyConfig& study) {
  if (k_of_name(name) >= 0) return true;
  const auto starts = [&](const std::string& with) { return name.starts_with(with); };
  if (name == "result") return !study.comparison.published_as.empty();
  if (study.reports("entropy") && starts("layer")) return true;
  if (study.reports("settings") &&
      std::ranges::find(kShownSettings, name, &ShownSetting::name) != kShownSettings.end())
    return true;
  return std::ranges::any_of(study.finetunes, [&](const FinetuneTask& task) {
    return name == task.name ||
           (starts(task.name + "-") && k_of_name(name.substr(task.name.size() + 1)) > 0);
  });
}

std::map<std::string, double> read_published(const ConfigNode& node, const std::string& below,
                                             const StudyConfig& study) {
  for (const auto& [name, value] : node.table())
    PENSTOCK_CHECK(is_shown(name, study), value.origin(), ": ", below, name,
                   ": is not shown by this study; name numbers of experts (k1, k2 and so on, or "
                   "all), layer1 and layer1-sd with report = [\"entropy\"], or a fine-tuning "
                   "(NAME, NAME-k8)");
  return read_numbers(node, below);
}

/// [upcycle] of the study and of the scale lie beneath the variant's, which says that there is any.
void read_upcycle(Variant& variant, const StudyFields& fields, const Scale& scale,
                  const std::map<std::string, ConfigNode>& own, const std::string& origin) {
  const auto scaled = scaled_variant(scale, variant.name);
  const auto asked = own.find("upcycle");
  if (asked == own.end() && !scaled.contains("upcycle")) return;
  PENSTOCK_CHECK(!variant.from.empty(), origin, ": variants.", variant.name,
                 ".upcycle: say with from = \"...\" which variant's model is upcycled");
  ConfigNode upcycle{ConfigNode::Value(ConfigNode::Table())};
  for (const auto* tables : {&fields.tables, &scale.fields.tables, &own, &scaled})
    if (const auto it = tables->find("upcycle"); it != tables->end()) upcycle.merge(it->second);
  check_upcycle(upcycle, "variants." + variant.name + ".upcycle");
  variant.upcycle = std::move(upcycle);
}

/// Takes [model] out of what a variant sets that begins with a model. Throws Error for keys that
/// cannot change there.
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

/// A model of one's own in place of the variants that others begin with, and checks of the rest.
void settle_beginnings(StudyConfig& study, const Scale& scale, const ConfigNode& variants) {
  std::set<std::string> beginnings;
  for (const auto& variant : study.variants)
    if (!variant.from.empty()) beginnings.insert(variant.from);
  for (const auto& variant : study.variants) {
    if (variant.from.empty()) continue;
    const std::string where = variants.find(variant.name)->origin() + ": variants." + variant.name;
    const auto other = std::ranges::find(study.variants, variant.from, &Variant::name);
    PENSTOCK_CHECK(other != study.variants.end(), where, ".from names '", variant.from,
                   "', which is not a variant of this study");
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

Variant read_variant(const std::string& name, const ConfigNode& node, const StudyFields& fields,
                     const Scale& scale, const std::filesystem::path& folder,
                     std::span<const std::string> overrides, StudyConfig& study) {
  check_name(name, node.origin());
  const auto own = read_config<VariantFields>(node, "variants." + name);
  refuse_other_tables(
      own.tables,
      {"set", "published", "upcycle", "label", "recipe", "match_compute", "from", "fold"},
      "variants." + name + ".");
  const std::string& usual = own.recipe.empty() ? fields.base : own.recipe;
  const std::string& file = scale.fields.base.empty() ? usual : scale.fields.base;
  PENSTOCK_CHECK(!file.empty(), node.origin(), ": variant '", name,
                 "' has no recipe; give it one, or give the study a base");
  Variant variant{.name = name,
                  .label = own.label.empty() ? name : own.label,
                  .recipe = read_toml((folder / file).string()),
                  .match_compute = own.match_compute,
                  .from = own.from,
                  .fold = own.fold};
  lay_set_over(variant.recipe, fields.tables);
  lay_set_over(variant.recipe, scale.fields.tables);
  ConfigNode set{ConfigNode::Value(ConfigNode::Table())};  // of this variant alone
  lay_set_over(set, own.tables);
  lay_set_over(set, scaled_variant(scale, name));
  if (!variant.from.empty())
    variant.retuned = naming_origins(set, [&] { return take_retuned(name, set); });
  variant.recipe.merge(set);
  read_upcycle(variant, fields, scale, own.tables, node.origin());
  if (const auto it = own.tables.find("published"); it != own.tables.end())
    study.comparison.published[name] =
        read_published(it->second, "variants." + name + ".published.", study);
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
  StudyConfig study{
      .path = path,
      .name = fields.name,
      .title = fields.title,
      .claim = over.claim.empty() ? fields.claim : over.claim,
      .scale = scale.name,
      .seeds = over.seeds.value_or(fields.seeds),
      .eval_k = over.eval_k.value_or(fields.eval_k),
      .eval_checkpoint = fields.eval_checkpoint,
      .report = fields.report,
      .comparison = {.measure = fields.measure,
                     .published_as = fields.published_as,
                     .reference = fields.reference,
                     .baseline = over.baseline.wanted() ? over.baseline : fields.baseline}};
  if (study.name.empty()) study.name = std::filesystem::path(path).stem().string();
  check_name(study.name, path + ": name");
  if (study.title.empty()) study.title = study.name;
  PENSTOCK_CHECK(!study.seeds.empty(), path, ": seeds is empty; give at least one");
  check_no_duplicates(study.seeds, path + ": seeds", "seed");
  check_no_duplicates(study.eval_k, path + ": eval_k", "number");
  const Baseline& baseline = study.comparison.baseline;
  PENSTOCK_CHECK(baseline.ngram == 0 || baseline.bits_per_byte == 0, path,
                 ": baseline has both ngram and bits_per_byte; give one");
  return study;
}

/// The study's file laid over the one that it is like, but for that one's name and title; the name
/// goes to `runs_of`.
ConfigNode read_tree(const std::string& path, std::string& runs_of) {
  ConfigNode root = read_toml(path);
  const ConfigNode* const like = root.find("like");
  const auto* file = like ? std::get_if<std::string>(&like->value()) : nullptr;
  if (!file) return root;
  const std::filesystem::path other = std::filesystem::path(path).parent_path() / *file;
  PENSTOCK_CHECK(other.filename() == *file, like->origin(), ": like = \"", *file,
                 "\": name a study in the same folder");
  ConfigNode::Table tree = read_toml(other.string()).table();
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

}  // namespace

bool StudyConfig::reports(const std::string& what) const {
  return std::ranges::find(report, what) != report.end();
}

bool StudyConfig::trains() const {
  return report.empty() || std::ranges::any_of(report, [](const std::string& what) {
           return what == "entropy" || what == "samples";
         });
}

StudyConfig read_study(const std::string& path, std::span<const std::string> overrides,
                       const std::string& asked_scale) {
  std::string runs_of;
  const ConfigNode root = read_tree(path, runs_of);
  const auto fields = read_config<StudyFields>(root);
  refuse_other_tables(fields.tables,
                      {"set", "upcycle", "variants", "finetune", "scale", "published_as", "name",
                       "title", "claim", "base", "seeds", "eval_k", "eval_checkpoint", "reference",
                       "measure", "baseline", "report", "like", "only"},
                      "");
  const Scale scale = read_scale(fields, path, asked_scale);
  StudyConfig study = study_of(fields, scale, path);
  study.runs_of = runs_of;
  std::vector<std::string> of_recipes, of_finetunes;
  for (const auto& one : overrides)
    (one.starts_with("finetune.") ? of_finetunes : of_recipes).push_back(one);
  const auto below = [](const auto& tables, const char* key) {
    const auto it = tables.find(key);
    return it == tables.end() ? nullptr : &it->second;
  };
  const ConfigNode none;
  if (const ConfigNode* tasks = below(fields.tables, "finetune"); tasks || !of_finetunes.empty())
    study.finetunes = read_finetune_tasks(tasks ? *tasks : none,
                                          below(scale.fields.tables, "finetune"), of_finetunes);

  const ConfigNode* const variants = below(fields.tables, "variants");
  PENSTOCK_CHECK((variants && !variants->table().empty()) || !study.trains(), path,
                 ": a study needs at least one [variants.NAME] table");
  if (!variants) return study;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const auto& name : names_in_order(*variants, "variants"))
    study.variants.push_back(
        read_variant(name, *variants->find(name), fields, scale, folder, of_recipes, study));
  if (const auto* scaled = below(scale.fields.tables, "variants"))
    for (const auto& [name, node] : scaled->table())
      check_known(study, name, node.origin() + ": scale." + scale.name + ".variants");
  for (const auto& name : fields.only) check_known(study, name, path + ": only");
  if (!fields.only.empty()) {
    const auto place = [&](const Variant& variant) {
      return std::ranges::find(fields.only, variant.name) - fields.only.begin();
    };
    std::erase_if(study.variants, [&](const Variant& variant) {
      return place(variant) == std::ssize(fields.only);
    });
    std::ranges::stable_sort(study.variants, {}, place);
  }
  settle_beginnings(study, scale, *variants);
  check_matches(study, *variants);
  std::string& reference = study.comparison.reference;
  if (reference.empty()) reference = study.variants.front().name;
  check_known(study, reference, path + ": reference");
  for (const auto& name : study.comparison.baseline.except)
    if (fields.only.empty())  // else it may be one that is left out
      check_known(study, name, path + ": baseline.except");
  return study;
}

}  // namespace penstock::study
