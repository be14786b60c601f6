// A table of figures in closed form in a study's file: the quantity, the variants, and the numbers
// that a paper prints. tables/closed_figures.h computes the figures.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/config_node.h"

namespace penstock::study {

/// The word in report = [...] that shows these tables.
inline constexpr std::string_view kClosedForms = "closed-forms";

enum class ClosedCount { flops, training_flops, parameters };
constexpr std::array<std::string_view, 3> words(ClosedCount) {
  return {"flops", "training-flops", "parameters"};
}

/// total, active, embedding: trained parameters (models/counts/parameter_count.h). backbone: all
/// parameters but the routers'. router, router_embedding, router_network: including frozen and
/// generated parameters. frozen: the routers' frozen parameters.
enum class ClosedPart {
  total,
  active,
  embedding,
  backbone,
  router,
  router_embedding,
  router_network,
  frozen
};
constexpr std::array<std::string_view, 8> words(ClosedPart) {
  return {"total",  "active",           "embedding",      "backbone",
          "router", "router_embedding", "router_network", "frozen"};
}

/// The pass for counted FLOPs: a forward pass (models/counts/evaluation_flops.h), or forward and
/// backward without memory (published_flops_per_sequence() of models/counts/flops.h).
struct ClosedWork {
  std::int64_t sequences = 1, length = 1, memory = 0;
  bool queries_of_memory = false;

  template <class V>
  void visit(V& v) {
    v("sequences", sequences, {.help = "sequences in the batch", .min = 1, .max = 1 << 30});
    v("length", length, {.help = "tokens per sequence", .min = 1, .max = 1 << 30});
    v("memory", memory,
      {.help = "memory positions before each sequence, for a model with a memory",
       .min = 0,
       .max = 1 << 30});
    v("queries_of_memory", queries_of_memory,
      {.help =
           "also count the queries of the memory positions; the useful figures do not count them"});
  }
};

/// One figure for each of the given variants.
struct ClosedCell {
  std::vector<std::string> variants;
  std::optional<std::int64_t> k;
  std::optional<ClosedPart> part;
  std::string label, remark;
  std::optional<double> published;
  std::string where = {};  ///< position in the file, for errors: "s.toml:9: closed_form.A3.cells"

  template <class V>
  void visit(V& v) {
    v("variants", variants,
      {.help = "variants of this figure; none: all variants that do not start from a model, and "
               "with k only those that have a k"});
    v("k", k, {.help = "count of FLOPs: experts per token; not given: the recipe's k", .min = 1});
    v("part", part, {.help = "count = parameters: the parameters that are counted"});
    v("label", label, {.help = "the paper's name of the figure; default: k, \"all\" or the part"});
    v("published", published, {.help = "the paper's number, in the table's unit"});
    v("remark", remark, {.help = "text shown where the paper's number and ours differ"});
  }
};

/// A [closed_form.NAME] table.
struct ClosedForm {
  std::string name = {};
  std::string of, title, unit, note;
  ClosedCount count = ClosedCount::flops;
  double divisor = 1;
  std::int64_t digits = 0;
  ClosedWork work;
  std::vector<ClosedCell> cells;

  template <class V>
  void visit(V& v) {
    v("of", of, {.help = "text before the title, such as a paper and its table"});
    v("title", title, {.help = "what the figures show"});
    v("count", count,
      {.help = "flops: FLOPs of linear layers, without the head, in a forward pass; "
               "training-flops: FLOPs of a decoder's forward and backward pass by the formula of "
               "Narayanan et al. 2021; parameters: parameters of each part"});
    v("unit", unit, {.help = "unit shown; default: FLOPs or parameters"});
    v("divisor", divisor, {.help = "number of FLOPs or parameters in the unit", .min = 1});
    v("digits", digits,
      {.help = "digits after the decimal point in the paper", .min = 0, .max = 9});
    v("note", note, {.help = "text below the table"});
    v("work", work);
    v("cells", cells,
      {.help = "tables with one figure per variant each, in the order of the report"});
  }
};

/// The tables below [closed_form], in the file's order.
/// @param variants  names of the study's variants
/// Throws Error with file, line and key for a table without cells, an unknown variant, FLOPs keys
/// in a table of parameters, and parameter keys in a table of FLOPs.
std::vector<ClosedForm> read_closed_forms(const ConfigNode& tables,
                                          const std::vector<std::string>& variants);

}  // namespace penstock::study
