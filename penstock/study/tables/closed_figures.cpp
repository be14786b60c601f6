#include "penstock/study/tables/closed_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/models/counts/evaluation_flops.h"
#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/train/read_recipe.h"

namespace penstock::study {
namespace {

/// A variant's model. Its parameters are counted once, when they are first needed.
struct ClosedModel {
  ModelConfig config;
  std::optional<ParameterCounts> counts = {};
};

std::int64_t parameters_of(const ParameterCounts& counts, ClosedPart part) {
  switch (part) {
    case ClosedPart::total:
      break;
    case ClosedPart::active:
      return counts.active;
    case ClosedPart::embedding:
      return counts.embedding;
    case ClosedPart::backbone:
      return counts.by_part.backbone;
    case ClosedPart::router:
      return counts.by_part.router;
    case ClosedPart::router_embedding:
      return counts.by_part.router_embedding;
    case ClosedPart::router_network:
      return counts.by_part.hypernetwork;
    case ClosedPart::frozen:
      return counts.frozen;
  }
  return counts.total;
}

class ClosedCounter {
 public:
  ClosedCounter(const ClosedForm& form, std::span<const Variant> variants)
      : form_(form), variants_(variants) {}

  std::vector<ClosedFigure> figures() {
    std::vector<ClosedFigure> out;
    for (const ClosedCell& cell : form_.cells)
      for (const Variant& variant : variants_) {
        if (!is_of(cell, variant)) continue;
        ClosedFigure figure = figure_of(cell, variant);
        if (cell.published) judge(figure, cell);
        out.push_back(std::move(figure));
      }
    return out;
  }

 private:
  bool is_of(const ClosedCell& cell, const Variant& variant) {
    if (!cell.variants.empty()) return std::ranges::count(cell.variants, variant.name) > 0;
    return variant.from.empty() && (!cell.k || model_of(cell, variant).config.traits().has_k);
  }

  ClosedModel& model_of(const ClosedCell& cell, const Variant& variant) {
    const auto found = models_.find(variant.name);
    if (found != models_.end()) return found->second;
    PENSTOCK_CHECK(variant.from.empty(), cell.where, ": variant '", variant.name,
                   "' begins with a model, which says what it is; name others");
    return models_[variant.name] = {.config = read_recipe(variant.recipe).model};
  }

  ClosedFigure figure_of(const ClosedCell& cell, const Variant& variant) {
    switch (form_.count) {
      case ClosedCount::flops:
        return forward_flops(cell, variant);
      case ClosedCount::training_flops:
        return training_flops(cell, variant);
      case ClosedCount::parameters:
        break;
    }
    return parameters(cell, variant);
  }

  /// The k of a figure of FLOPs.
  double k_of(const ClosedCell& cell, const Variant& variant) {
    const ModelConfig& config = model_of(cell, variant).config;
    const bool routes = config.moe_layers() > 0;
    PENSTOCK_CHECK(routes || !cell.k, cell.where, ".k: variant '", variant.name,
                   "' has no experts; leave k away for it");
    PENSTOCK_CHECK(!cell.k || *cell.k <= config.moe.experts, cell.where,
                   ".k = ", cell.k.value_or(0), ": variant '", variant.name, "' has ",
                   config.moe.experts, " experts");
    return cell.k ? static_cast<double>(*cell.k) : config.router.k;
  }

  static std::string row_of(const ClosedCell& cell, const ModelConfig& config, double k) {
    if (!cell.label.empty()) return cell.label;
    return config.moe_layers() > 0 ? fmt::format("k = {:g}", k) : "all";
  }

  /// Throws Error where the head is counted and the recipe leaves the vocabulary to its corpus.
  static void check_vocabulary(const ClosedCell& cell, const Variant& variant,
                               const ModelConfig& config) {
    PENSTOCK_CHECK(config.vocab > 0, cell.where, ": the vocabulary of variant '", variant.name,
                   "' is its corpus's; give the study [set.model] vocab");
  }

  ClosedFigure training_flops(const ClosedCell& cell, const Variant& variant) {
    ModelConfig config = model_of(cell, variant).config;
    PENSTOCK_CHECK(!config.has_memory(), cell.where, ": variant '", variant.name,
                   "' has a memory, which the formula of training-flops does not know; take "
                   "count = \"flops\"");
    check_vocabulary(cell, variant, config);
    config.router.k = k_of(cell, variant);
    const double flops = static_cast<double>(form_.work.sequences) *
                         published_flops_per_sequence(config, form_.work.length) / form_.divisor;
    return {.row = row_of(cell, config, config.router.k),
            .column = variant.label,
            .computed = flops,
            .useful = flops};
  }

  ClosedFigure forward_flops(const ClosedCell& cell, const Variant& variant) {
    const ModelConfig& config = model_of(cell, variant).config;
    const double k = k_of(cell, variant);
    // A merging router computes one blended expert for any k. The blending itself counts too.
    const double active =
        config.traits().merges ? 1 : k * static_cast<double>(config.moe.granularity);
    const ClosedWork& requested = form_.work;
    EvaluationWork work{.sequences = requested.sequences,
                        .length = requested.length,
                        .memory = requested.memory,
                        .active_experts = active};
    const double useful = linear_layer_flops(config, work);
    work.queries_of_memory = requested.queries_of_memory;
    return {.row = row_of(cell, config, k),
            .column = variant.label,
            .computed = linear_layer_flops(config, work) / form_.divisor,
            .useful = useful / form_.divisor};
  }

  ClosedFigure parameters(const ClosedCell& cell, const Variant& variant) {
    ClosedModel& model = model_of(cell, variant);
    check_vocabulary(cell, variant, model.config);
    if (!model.counts) model.counts = count_parameters(model.config);
    const double count = static_cast<double>(parameters_of(*model.counts, *cell.part));
    return {.row = variant.label,
            .column = cell.label.empty() ? std::string(word(*cell.part)) : cell.label,
            .computed = count / form_.divisor,
            .useful = count / form_.divisor};
  }

  void judge(ClosedFigure& figure, const ClosedCell& cell) const {
    const double unit = std::pow(10, form_.digits);
    figure.published = cell.published;
    figure.agrees = std::round(figure.computed * unit) == std::round(*cell.published * unit);
    if (!figure.agrees) figure.remark = cell.remark;
  }

  const ClosedForm& form_;
  std::span<const Variant> variants_;
  std::map<std::string, ClosedModel> models_;
};

}  // namespace

std::vector<ClosedFigure> closed_figures(const ClosedForm& form,
                                         std::span<const Variant> variants) {
  return ClosedCounter(form, variants).figures();
}

nlohmann::ordered_json to_json(const ClosedForm& form, std::span<const ClosedFigure> figures) {
  using Json = nlohmann::ordered_json;
  Json cells = Json::array();
  for (const ClosedFigure& figure : figures) {
    const auto& published = figure.published;
    cells.push_back({{"row", figure.row},
                     {"column", figure.column},
                     {"published", published ? Json(*published) : Json()},
                     {"computed", figure.computed},
                     {"useful", figure.useful},
                     {"agrees", published ? Json(figure.agrees) : Json()},
                     {"remark", figure.remark}});
  }
  return {{"table", form.name}, {"title", form.title}, {"unit", form.unit}, {"cells", cells}};
}

}  // namespace penstock::study
