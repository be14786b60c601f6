// The keys of a study's file, each declared once. Measurements declare their own keys
// (measurement.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/study/config/closed_form.h"
#include "penstock/study/config/comparison.h"
#include "penstock/study/measurement.h"
#include "penstock/study/run_checkpoint.h"

namespace penstock::study {

/// The words that report = [...] accepts.
inline std::vector<std::string_view> report_words() {
  std::vector<std::string_view> out{"settings", kClosedForms};
  for (const auto& one : plain_measurements())
    for (const std::string_view word : one->report_words()) out.push_back(word);
  return out;
}

/// Keys that override a recipe. A study, a scale, a variant and a scale's table of a variant can
/// each give them.
struct RecipeChanges {
  ConfigNode set, upcycle;
  template <class V>
  void visit(V& v) {
    v("set", set,
      {.help = "keys that override the recipe, in this order: the study's, the scale's, the "
               "variant's, the scale's for the variant"});
    v("upcycle", upcycle,
      {.help = "keys of `penstock upcycle`, which override each other in the order of set; a "
               "variant is upcycled if its own table has keys"});
  }
};

/// Keys that a study gives, and that a scale can replace or override. A struct with this struct as
/// a member lists these keys among its own.
struct ComparisonFields {
  std::string claim, base;
  std::optional<std::vector<std::int64_t>> seeds;
  std::vector<std::string> only;
  std::string reference;
  Baseline baseline;
  RecipeChanges changes;
  ConfigNode variants;
  template <class V>
  void visit(V& v) {
    v("claim", claim, {.help = "question that the study asks"});
    v("base", base,
      {.help = "recipe of every variant that names none; in a scale: the recipe of every variant"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v("only", only, {.help = "variants in the study, in this order; none: all"});
    v("reference", reference,
      {.help = "variant that the others are compared with; none: the first"});
    v("baseline", baseline);
    changes.visit(v);
    v("variants", variants,
      {.help = "variants of the comparison, by name; a scale's tables override the study's"});
  }
};

struct StudyFields {
  std::string name, title, like;
  ComparisonFields comparison{.seeds = std::vector<std::int64_t>{1}};
  std::vector<std::string> report;
  RunCheckpoint eval_checkpoint = RunCheckpoint::final;
  ConfigNode::Array pairs;
  Quality measure = Quality::bits_per_byte;
  std::string published_as;
  ConfigNode scale, closed_form;
  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "short name; the default output folder"});
    v("title", title, {.help = "heading of the report"});
    v("like", like,
      {.help = "study in the same folder whose variants, scales and runs this study uses; keys of "
               "this file override it"});
    comparison.visit(v);
    v("report", report, {.help = "additional sections of the report", .choices = report_words()});
    v("eval_checkpoint", eval_checkpoint, {.help = "checkpoint that is measured"});
    v("pairs", pairs,
      {.help = "pairs of variants, or of groups, whose differences are shown, first minus second"});
    v("measure", measure, {.help = "quality measure in tables by k"});
    v("published_as", published_as,
      {.help =
           "meaning of published = {result = ...} in the variants; shown beside their results"});
    v("scale", scale, {.help = "scales, by name; keys that a scale does not give are the study's"});
    v("closed_form", closed_form,
      {.help = "tables of FLOPs or parameters of the variants, by name; shown by \"closed-forms\" "
               "in report"});
  }
};

struct VariantFields {
  std::string label, recipe, match_compute, from;
  ConfigNode published;
  RecipeChanges changes;
  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name in tables and plots"});
    v("recipe", recipe, {.help = "recipe file, in place of base"});
    v("match_compute", match_compute,
      {.help = "variant whose training FLOPs this variant matches"});
    v("from", from,
      {.help = "variant whose last checkpoint, of the same seed, is the start of training"});
    v("published", published, {.help = "published numbers of a paper, by name"});
    changes.visit(v);
  }
};

struct ScaleFields {
  std::string name = {};  ///< the table's key; empty: the study has no scales
  ComparisonFields comparison;
  std::string from;
  template <class V>
  void visit(V& v) {
    comparison.visit(v);
    v("from", from,
      {.help = "model that replaces, at this scale, the variants that others start from"});
  }
};

}  // namespace penstock::study
