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
      {.help = "laid over the recipe: the study's, then the scale's, the variant's and the scale's "
               "of the variant"});
    v("upcycle", upcycle,
      {.help = "keys of `penstock upcycle`, laid over one another as set is; a variant is upcycled "
               "where a table of its own has any"});
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
    v("claim", claim, {.help = "what the study asks"});
    v("base", base,
      {.help = "recipe of every variant that names none; a scale's: of every variant"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v("only", only, {.help = "the variants that are studied, in this order; none: all"});
    v("reference", reference,
      {.help = "variant that the others are compared with; none: the first"});
    v("baseline", baseline);
    changes.visit(v);
    v("variants", variants,
      {.help = "the lines of the comparison, by name; a scale's are laid over the study's"});
  }
};

struct StudyFields {
  std::string name, title, like;
  ComparisonFields comparison{.seeds = std::vector<std::int64_t>{1}};
  std::vector<std::string> report;
  RunCheckpoint eval_checkpoint = RunCheckpoint::final;
  Quality measure = Quality::bits_per_byte;
  std::string published_as;
  ConfigNode scale, closed_form;
  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "short name; the default output folder"});
    v("title", title, {.help = "heading of the report"});
    v("like", like,
      {.help = "study in the same folder whose variants, scales and runs these are; what this file "
               "says is laid over it"});
    comparison.visit(v);
    v("report", report, {.help = "what is shown besides", .choices = report_words()});
    v("eval_checkpoint", eval_checkpoint, {.help = "which checkpoint is measured"});
    v("measure", measure, {.help = "which figure tables by k show"});
    v("published_as", published_as,
      {.help = "what published = {result = ...} of the variants is, shown beside their results"});
    v("scale", scale, {.help = "scales, by name; what one leaves out is the study's"});
    v("closed_form", closed_form,
      {.help = "tables of FLOPs or parameters of the variants, by name, which \"closed-forms\" of "
               "report shows"});
  }
};

struct VariantFields {
  std::string label, recipe, match_compute, from;
  ConfigNode published;
  RecipeChanges changes;
  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name in tables and plots"});
    v("recipe", recipe, {.help = "recipe file, instead of base"});
    v("match_compute", match_compute, {.help = "variant whose training FLOPs this one spends"});
    v("from", from,
      {.help = "variant whose last checkpoint of the same seed training begins with"});
    v("published", published, {.help = "numbers of a paper, by name"});
    changes.visit(v);
  }
};

struct ScaleFields {
  ComparisonFields comparison;
  std::string from;
  template <class V>
  void visit(V& v) {
    comparison.visit(v);
    v("from", from,
      {.help = "model that stands, at this scale, for the variant that others begin with"});
  }
};

}  // namespace penstock::study
