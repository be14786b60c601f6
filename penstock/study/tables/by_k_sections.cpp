// Figures by experts per token: tables, charts and remarks for pages, and JSON for results.json.
#include <fmt/format.h>

#include <set>

#include "penstock/base/joined.h"
#include "penstock/study/runs/equal_compute.h"
#include "penstock/study/runs/pair_comparison.h"
#include "penstock/study/tables/by_k_summary.h"

namespace penstock::study {
namespace {

using nlohmann::json;
using Ks = std::span<const std::int64_t>;

std::string k_title(std::int64_t k) { return k > 0 ? fmt::format("k={}", k) : "any k"; }

Table table_by_k(const std::string& title, const std::string& first, Ks ks) {
  Table out{.title = title, .columns = {first}};
  for (const std::int64_t k : ks) out.columns.emplace_back(k_title(k));
  return out;
}

/// The splits and checkpoints of all measured rows: "test split, final checkpoint".
std::string measured_on(Variants variants) {
  std::set<std::string> places;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (const auto by_k = measured_k(*row))
        places.insert(concat(by_k->split, " split, ", word(by_k->checkpoint), " checkpoint"));
  return joined(places, "; ");
}

Table quality_table(Variants variants, const Comparison& comparison, Ks ks) {
  Table out = table_by_k(fmt::format("{} with k experts per token ({})",
                                     measure_title(comparison.measure), measured_on(variants)),
                         one_run(variants) ? "" : "variant", ks);
  std::set<std::int64_t> told;
  for (const std::int64_t k : ks)
    if (order_may_be_told(variants, comparison, k) && compute_difference(variants).empty())
      told.insert(k);
  const auto format = [&](double value) { return quality_text(value, comparison.measure); };
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TableRow& row = out.rows.emplace_back();
    row = {.cells = {variants[i].label}, .variant = i};
    for (const std::int64_t k : ks) {
      const auto value = [&](const VariantSummary& variant) {
        return quality_at(variant, k, comparison.measure);
      };
      row.cells.push_back(spread_cell(value(variants[i]), format));
      row.cells.back().best = told.contains(k) && lowest(variants, value) == &variants[i];
    }
    if (!comparison.published.contains(variants[i].name)) continue;
    TableRow& paper = out.rows.emplace_back();
    paper = {.cells = {"paper"}, .beneath = true};
    for (const std::int64_t k : ks)
      paper.cells.emplace_back(number_or_dash(published_number(
          comparison, variants[i].name, k > 0 ? fmt::format("k{}", k) : "all", "all")));
  }
  return out;
}

Table flops_table(Variants variants, Ks ks) {
  Table out = table_by_k("", "MFLOP per token, forward", ks);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TableRow& row = out.rows.emplace_back();
    row = {.cells = {variants[i].label}, .variant = i};
    for (const std::int64_t k : ks) {
      const double flops = flops_at(variants[i], k);
      row.cells.emplace_back(flops > 0 ? fixed(3)(flops / 1e6) : "–");
    }
  }
  return out;
}

/// Adds the pair's differences by k, if there is any.
void add_differences(Table& table, TableRow row, const VariantPair& pair, Quality measure, Ks ks) {
  bool any = false;
  for (const std::int64_t k : ks) {
    const auto difference = difference_at(pair, k, measure);
    any |= difference.has_value();
    row.cells.push_back(difference ? difference_cell(*difference) : Cell("–"));
  }
  if (any) table.rows.push_back(std::move(row));
}

/// Without rows if nothing can be compared.
Table difference_table(Variants variants, const Comparison& comparison, Ks ks) {
  const auto pairs = pairs_with_reference(variants, comparison);
  if (pairs.empty()) return {};
  Table out = table_by_k(
      fmt::format("difference in {} from {}, seed by seed", measure_title(comparison.measure),
                  pairs.front().second.front()->label),
      "", ks);
  for (const VariantPair& pair : pairs)
    add_differences(out,
                    {.cells = {pair.first.front()->label},
                     .variant = static_cast<std::size_t>(pair.first.front() - variants.data())},
                    pair, comparison.measure, ks);
  return out;
}

Table chosen_table(Variants variants, const Comparison& comparison, Ks ks) {
  Table out = table_by_k(
      fmt::format("differences of pairs in {}, seed by seed", measure_title(comparison.measure)),
      "first − second", ks);
  for (const VariantPair& pair : chosen_pairs(variants, comparison))
    add_differences(out, {.cells = {pair.label}}, pair, comparison.measure, ks);
  return out;
}

/// The verdict as remarks. The orders of the variants are details, because the table already tints
/// the best of each column.
std::vector<Remark> remarks(Variants variants, const Comparison& comparison) {
  const bool tell = order_may_be_told(variants, comparison);
  std::vector<Remark> out;
  for (const auto& line : verdict(variants, comparison))
    out.push_back({line, !tell ? Tone::warning : out.empty() ? Tone::plain : Tone::detail});
  return out;
}

/// The differences of the pairs at each k. `first` and `second` are the keys of their names.
json differences_json(std::span<const VariantPair> pairs, Quality measure, Ks ks, const char* first,
                      const char* second) {
  json out = json::array();
  for (const std::int64_t k : ks)
    for (const VariantPair& pair : pairs)
      if (const auto difference = difference_at(pair, k, measure)) {
        out.push_back({{first, pair.names.first.written()},
                       {second, pair.names.second.written()},
                       {"k", k > 0 ? json(k) : json()}});
        if (pair.names.label) out.back()["label"] = *pair.names.label;
        out.back().update(to_json(*difference));
      }
  return out;
}

}  // namespace

std::vector<Section> by_k_sections(std::span<const RunRow> rows, const Comparison& comparison) {
  const auto with_folded = by_k_rows(rows);
  const auto variants = summarize(with_folded);
  const auto ks = measured_ks(variants);
  Section out{.title = ks.empty() ? "Baseline" : "By number of experts",
              .remarks = remarks(variants, comparison)};
  if (ks.empty()) return out.remarks.empty() ? std::vector<Section>() : std::vector{out};
  bool several = false;
  for (const auto& variant : variants) several |= variant.rows.size() > 1;
  out.charts = by_k_charts(k_series(variants, comparison), comparison.measure, several);
  out.tables = {quality_table(variants, comparison, ks), flops_table(variants, ks)};
  for (const auto& differences : {difference_table, chosen_table})
    if (Table table = differences(variants, comparison, ks); !table.rows.empty())
      out.tables.push_back(std::move(table));
  if (!one_run(variants))
    out.note =
        "Mean ± standard deviation over seeds; useful FLOPs of a forward pass. Differences are of "
        "runs with the same seed, with the 95 % interval of their mean by Student’s t. Nothing is "
        "said of an order unless every variant beats the study’s baseline at its best k, and of "
        "the order at a k only where every variant does at that k.";
  return {out};
}

json by_k_json(std::span<const RunRow> rows, const Comparison& comparison) {
  const auto with_folded = by_k_rows(rows);
  const auto variants = summarize(with_folded);
  const auto ks = measured_ks(variants);
  json points = json::array(), under = json::array();
  for (const auto& variant : variants)
    for (const std::int64_t k : ks)
      if (const Spread quality = quality_at(variant, k, comparison.measure); quality.count > 0)
        points.push_back({{"variant", variant.name},
                          {"k", k > 0 ? json(k) : json()},
                          {word(comparison.measure), to_json(quality)},
                          {"flops_per_token", flops_at(variant, k)}});
  for (const auto& one : undertrained(variants, comparison)) under.push_back(one.variant);
  json out = {{"by_k", points}, {"undertrained", under}};
  out["by_k_differences"] = differences_json(pairs_with_reference(variants, comparison),
                                             comparison.measure, ks, "variant", "reference");
  if (!comparison.pairs.empty())
    out["by_k_pairs"] = differences_json(chosen_pairs(variants, comparison), comparison.measure, ks,
                                         "first", "second");
  return out;
}

}  // namespace penstock::study
