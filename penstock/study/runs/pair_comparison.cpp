#include "penstock/study/runs/pair_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "penstock/base/joined.h"
#include "penstock/study/json_field.h"
#include "penstock/study/runs/equal_compute.h"

namespace penstock::study {
namespace {

using nlohmann::json;
using Side = std::vector<const VariantSummary*>;

/// Null if the variant has no rows.
const VariantSummary* summary_of(Variants variants, const std::string& name) {
  const auto found = std::ranges::find(variants, name, &VariantSummary::name);
  return found == variants.end() ? nullptr : &*found;
}

/// The variants' labels; the names of those without rows.
std::string labels_of(Variants variants, const VariantGroup& group) {
  return joined(group.names, ", ", [&](const std::string& name) {
    const VariantSummary* const variant = summary_of(variants, name);
    return variant ? variant->label : name;
  });
}

std::string label_of(Variants variants, const ChosenPair& names) {
  return names.label ? *names.label
                     : labels_of(variants, names.first) + " − " + labels_of(variants, names.second);
}

/// Empty if a variant has no rows.
Side side_of(Variants variants, const VariantGroup& group) {
  Side out;
  for (const std::string& name : group.names) {
    const VariantSummary* const variant = summary_of(variants, name);
    if (!variant) return {};
    out.push_back(variant);
  }
  return out;
}

/// Nothing if a variant has no rows.
std::optional<VariantPair> pair_of(Variants variants, const ChosenPair& names) {
  VariantPair out{.names = names,
                  .label = label_of(variants, names),
                  .first = side_of(variants, names.first),
                  .second = side_of(variants, names.second)};
  return out.first.empty() || out.second.empty() ? std::nullopt : std::optional(std::move(out));
}

/// The mean of the variants' figures at a seed; nothing if a variant has none.
std::optional<double> mean_at(const Side& side, std::int64_t seed, const Figure& figure) {
  double sum = 0;
  for (const VariantSummary* variant : side) {
    std::optional<double> found;
    for (const RunRow* row : variant->rows)
      if (row->seed == seed && !found) found = figure(*row);
    if (!found) return std::nullopt;
    sum += *found;
  }
  return sum / static_cast<double>(side.size());
}

/// The differences of a loss of the summaries.
std::optional<PairedDifference> loss_difference(const VariantPair& pair,
                                                Spread VariantSummary::*spread) {
  return difference_of(pair,
                       std::ranges::find(summary_figures(), spread, &SummaryFigure::spread)->of);
}

/// The mean of the variants' mean training FLOPs; 0 if one does not state them.
double mean_flops(const Side& side) {
  double sum = 0;
  for (const VariantSummary* variant : side) {
    if (variant->total_flops.count == 0) return 0;
    sum += variant->total_flops.mean;
  }
  return sum / static_cast<double>(side.size());
}

/// Fills in the seeds that every variant of the pair has, and their number in any.
void count_seeds(PairComparison& out, const VariantPair& pair) {
  std::map<std::int64_t, std::size_t> variants;  // with a run, by seed
  for (const Side* side : {&pair.first, &pair.second})
    for (const VariantSummary* variant : *side) {
      std::set<std::int64_t> own;
      for (const RunRow* row : variant->rows) own.insert(row->seed);
      for (const std::int64_t seed : own) ++variants[seed];
    }
  for (const auto& [seed, count] : variants)
    if (count == pair.first.size() + pair.second.size()) out.seeds.push_back(seed);
  out.all_seeds = variants.size();
}

/// @param compute  the first's training FLOPs ÷ the second's; 0: not stated
std::string why_no_order(const VariantPair& pair, double compute) {
  const auto causal = [](const VariantSummary* variant) { return variant->causal; };
  if (!std::ranges::all_of(pair.first, causal) || !std::ranges::all_of(pair.second, causal))
    return "not causal";
  return compute > 0 && std::max(compute, 1 / compute) > kEqualCompute ? "compute differs" : "";
}

/// Without seeds if a variant has no rows.
PairComparison compared(Variants variants, const ChosenPair& names) {
  PairComparison out{.names = names,
                     .label = label_of(variants, names),
                     .first = labels_of(variants, names.first),
                     .second = labels_of(variants, names.second)};
  const auto pair = pair_of(variants, names);
  if (!pair) return out;
  count_seeds(out, *pair);
  out.validation_loss = loss_difference(*pair, &VariantSummary::validation_loss);
  out.test_loss = loss_difference(*pair, &VariantSummary::test_loss);
  const double first = mean_flops(pair->first), second = mean_flops(pair->second);
  out.compute = first > 0 && second > 0 ? first / second : 0;
  out.no_order = why_no_order(*pair, out.compute);
  return out;
}

json json_of(const std::optional<PairedDifference>& paired) {
  return paired ? to_json(*paired) : json();
}

/// What both lists of comparisons in results.json have.
json common_json(const PairComparison& pair) {
  return {{"seeds", pair.seeds},
          {"test_loss", json_of(pair.test_loss)},
          {"compute", pair.compute > 0 ? json(pair.compute) : json()},
          {"no_order", pair.no_order.empty() ? json() : json(pair.no_order)}};
}

}  // namespace

std::optional<PairedDifference> difference_of(const VariantPair& pair, const Figure& figure) {
  std::vector<double> a, b;
  for (const RunRow* row : pair.first.front()->rows) {
    const auto mine = mean_at(pair.first, row->seed, figure);
    const auto theirs = mean_at(pair.second, row->seed, figure);
    if (!mine || !theirs) continue;
    a.push_back(*mine);
    b.push_back(*theirs);
  }
  return a.empty() ? std::nullopt : std::optional(paired_difference(a, b));
}

std::vector<VariantPair> pairs_with_reference(Variants variants, const Comparison& comparison) {
  std::vector<VariantPair> out;
  for (const VariantSummary& variant : variants) {
    if (variant.name == comparison.reference) continue;
    if (auto pair = pair_of(variants, {variant.name, comparison.reference}))
      out.push_back(std::move(*pair));
  }
  return out;
}

std::vector<VariantPair> chosen_pairs(Variants variants, const Comparison& comparison) {
  std::vector<VariantPair> out;
  for (const ChosenPair& names : comparison.pairs)
    if (auto pair = pair_of(variants, names)) out.push_back(std::move(*pair));
  return out;
}

std::vector<PairComparison> compare_all(Variants variants) {
  std::vector<PairComparison> out;
  for (std::size_t i = 0; i < variants.size(); ++i)
    for (std::size_t j = i + 1; j < variants.size(); ++j)
      if (auto pair = compared(variants, {variants[i].name, variants[j].name});
          pair.validation_loss)
        out.push_back(std::move(pair));
  return out;
}

std::vector<PairComparison> compare_shown(Variants variants, const Comparison& comparison) {
  constexpr std::size_t kMostInPairs = 5;
  const auto with_reference = pairs_with_reference(variants, comparison);
  if (variants.size() <= kMostInPairs || with_reference.empty()) return compare_all(variants);
  std::vector<PairComparison> out;
  for (const VariantPair& one : with_reference)
    if (auto pair = compared(variants, one.names); pair.validation_loss)
      out.push_back(std::move(pair));
  return out;
}

std::vector<PairComparison> compare_chosen(Variants variants, const Comparison& comparison) {
  std::vector<PairComparison> out;
  for (const ChosenPair& names : comparison.pairs) out.push_back(compared(variants, names));
  return out;
}

Cell difference_cell(const PairedDifference& paired) {
  const double mean = paired.difference.mean;
  if (!paired.half_width) return {fmt::format("{:+.4f}", mean), "one seed"};
  return {fmt::format("{:+.4f}", mean),
          fmt::format("{:+.4f} to {:+.4f}", mean - *paired.half_width, mean + *paired.half_width)};
}

json all_pairs_json(Variants variants) {
  json out = json::array();
  for (const PairComparison& pair : compare_all(variants)) {
    out.push_back(common_json(pair));
    out.back().update({{"first", pair.first}, {"second", pair.second}});
    out.back().update(json_of(pair.validation_loss));
  }
  return out;
}

json chosen_pairs_json(Variants variants, const Comparison& comparison) {
  json out = json::array();
  for (const PairComparison& pair : compare_chosen(variants, comparison)) {
    out.push_back(common_json(pair));
    out.back().update(write_json(pair.names));
    out.back()["validation_loss"] = json_of(pair.validation_loss);
  }
  return out;
}

}  // namespace penstock::study
