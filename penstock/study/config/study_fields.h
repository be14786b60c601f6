// The keys of a study's file, each declared once. Those of measurements are theirs (measurement.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/study/config/closed_form.h"
#include "penstock/study/config/comparison.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/run_checkpoint.h"

namespace penstock::study {

/// The words that report = [...] takes.
inline std::vector<std::string_view> report_words() {
  std::vector<std::string_view> out{"settings", kClosedForms};
  for (const auto& one : plain_measurements())
    for (const std::string_view word : one->report_words()) out.push_back(word);
  return out;
}

struct StudyFields {
  std::string name, title, claim, base, like, published_as, reference;
  RunCheckpoint eval_checkpoint = RunCheckpoint::final;
  Quality measure = Quality::bits_per_byte;
  std::vector<std::int64_t> seeds{1};
  std::vector<std::string> only, report;
  Baseline baseline;
  ConfigNode set, upcycle, variants, scale, closed_form;
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
    v("report", report, {.help = "what is shown besides", .choices = report_words()});
    v("eval_checkpoint", eval_checkpoint, {.help = "which checkpoint is measured"});
    v("reference", reference, {.help = "variant that the others are compared with"});
    v("measure", measure, {.help = "which figure tables by k show"});
    v("published_as", published_as,
      {.help = "what published = {result = ...} of the variants is, shown beside their results"});
    v("baseline", baseline);
    v("set", set, {.help = "laid over every variant's recipe"});
    v("upcycle", upcycle, {.help = "what each variant's upcycle is laid over"});
    v("variants", variants, {.help = "the lines of the comparison, by name"});
    v("scale", scale, {.help = "scales, by name"});
    v("closed_form", closed_form,
      {.help = "tables of FLOPs or parameters of the variants, by name, which \"closed-forms\" of "
               "report shows"});
  }
};

struct VariantFields {
  std::string label, recipe, match_compute, from;
  ConfigNode set, published, upcycle;
  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name in tables and plots"});
    v("recipe", recipe, {.help = "recipe file, instead of base"});
    v("match_compute", match_compute, {.help = "variant whose training FLOPs this one spends"});
    v("from", from,
      {.help = "variant whose last checkpoint of the same seed training begins with"});
    v("set", set, {.help = "laid over the recipe"});
    v("published", published, {.help = "numbers of a paper, by name"});
    v("upcycle", upcycle, {.help = "keys of `penstock upcycle`"});
  }
};

/// What a scale says in place of the study, and lays over it.
struct ScaleFields {
  std::string claim, base, from;
  std::string reference;
  std::optional<std::vector<std::int64_t>> seeds;
  std::vector<std::string> only;
  Baseline baseline;
  ConfigNode set, upcycle, variants;
  template <class V>
  void visit(V& v) {
    v("claim", claim, {.help = "what the study asks at this scale"});
    v("base", base, {.help = "recipe of every variant at this scale, instead of those they name"});
    v("from", from,
      {.help = "model that stands, at this scale, for the variant that others begin with"});
    v("seeds", seeds, {.help = "train.seed of each repetition"});
    v("only", only, {.help = "the variants of this scale; none: the study's"});
    v("reference", reference, {.help = "instead of the study's"});
    v("baseline", baseline);
    v("set", set, {.help = "laid over every variant's recipe"});
    v("upcycle", upcycle, {.help = "laid over the study's upcycle"});
    v("variants", variants, {.help = "what this scale adds to variants, by name"});
  }
};

/// What a scale says of a variant.
struct ScaledVariant {
  ConfigNode set, upcycle;
  template <class V>
  void visit(V& v) {
    v("set", set, {.help = "laid over the recipe last"});
    v("upcycle", upcycle, {.help = "laid over the variant's upcycle"});
  }
};

}  // namespace penstock::study
