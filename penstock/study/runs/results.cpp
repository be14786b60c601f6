#include "penstock/study/runs/results.h"

#include <algorithm>

namespace penstock::study {
namespace {

std::optional<double> positive(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<double> active_experts(const RunRow& row) {
  if (row.validation && row.validation->active_experts()) return row.validation->active_experts();
  const auto curve = row.curves.find("active_experts");
  if (curve == row.curves.end() || curve->second.values.empty()) return std::nullopt;
  return curve->second.values.back();
}

}  // namespace

const std::vector<SummaryFigure>& summary_figures() {
  using V = VariantSummary;
  using Row = const RunRow&;
  using Value = std::optional<double>;
  static const std::vector<SummaryFigure> figures{
      {"validation_loss", &V::validation_loss,
       [](Row r) { return r.validation ? Value(r.validation->loss) : Value(); }},
      {"bits_per_byte", &V::bits_per_byte,
       [](Row r) { return r.validation ? positive(r.validation->bits_per_byte) : Value(); }},
      {"test_loss", &V::test_loss, [](Row r) { return r.test ? Value(r.test->loss) : Value(); }},
      {"active_experts", &V::active_experts, active_experts},
      {"tokens_per_second", &V::tokens_per_second,
       [](Row r) { return positive(r.tokens_per_second); }},
      {"share_of_peak", &V::share_of_peak, [](Row r) { return positive(r.share_of_peak); }},
      {"peak_bytes", &V::peak_bytes, [](Row r) { return positive(r.peak_bytes); }},
      {"steps", &V::steps, [](Row r) { return Value(r.steps); }},
      {"total_flops", &V::total_flops, [](Row r) { return positive(r.total_flops); }},
      {"settled_step", &V::settled_step, [](Row r) { return Value(r.stages.settled); }},
  };
  return figures;
}

Spread spread_of(const VariantSummary& variant, const Figure& figure) {
  std::vector<double> values;
  for (const RunRow* row : variant.rows)
    if (const auto found = figure(*row)) values.push_back(*found);
  return spread(values);
}

Spread sparsifying_step(const VariantSummary& variant) {
  return spread_of(variant,
                   [](const RunRow& row) { return std::optional<double>(row.stages.sparsifying); });
}

const VariantSummary* lowest(Variants variants,
                             const std::function<Spread(const VariantSummary&)>& value) {
  if (variants.size() < 2) return nullptr;
  const VariantSummary* best = nullptr;
  for (const auto& variant : variants)
    if (variant.causal && value(variant).count > 0 &&
        (!best || value(variant).mean < value(*best).mean))
      best = &variant;
  return best;
}

std::vector<VariantSummary> summarize(std::span<const RunRow> rows) {
  std::vector<VariantSummary> variants;
  for (const auto& row : rows) {
    auto it = std::ranges::find(variants, row.variant, &VariantSummary::name);
    if (it == variants.end())
      it = variants.insert(variants.end(), {.name = row.variant, .label = row.label});
    it->rows.push_back(&row);
  }
  for (auto& v : variants) {
    v.causal = std::ranges::all_of(v.rows, &RunRow::causal);
    v.by_thresholds = std::ranges::any_of(v.rows, &RunRow::by_thresholds);
    if (!v.causal) v.label += " (not causal)";
    if (v.by_thresholds) v.label += " (by thresholds)";
    for (const auto& figure : summary_figures()) v.*figure.spread = spread_of(v, figure.of);
    v.steered = static_cast<std::size_t>(
        std::ranges::count_if(v.rows, [](const RunRow* r) { return r->steered(); }));
  }
  return variants;
}

}  // namespace penstock::study
