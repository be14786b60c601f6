#include "penstock/study/runs/pair_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/study/json_field.h"
#include "penstock/study/runs/equal_compute.h"

namespace penstock::study {
namespace {

using nlohmann::json;

/// Null if the variant has no rows.
const VariantSummary* summary_of(Variants variants, const std::string& name) {
  const auto found = std::ranges::find(variants, name, &VariantSummary::name);
  return found == variants.end() ? nullptr : &*found;
}

/// The summaries of two variants; null for those without rows.
VariantPair summaries_of(Variants variants, const ChosenPair& names) {
  return {summary_of(variants, names.first), summary_of(variants, names.second)};
}

std::set<std::int64_t> seeds_of(const VariantSummary& variant) {
  std::set<std::int64_t> out;
  for (const RunRow* row : variant.rows) out.insert(row->seed);
  return out;
}

/// The differences of a loss of the summaries.
std::optional<PairedDifference> loss_difference(const VariantPair& pair,
                                                Spread VariantSummary::*spread) {
  return difference_of(pair,
                       std::ranges::find(summary_figures(), spread, &SummaryFigure::spread)->of);
}

/// The first's training FLOPs ÷ the second's; 0: not stated.
double compute_quotient(const VariantPair& pair) {
  const Spread &first = pair.first->total_flops, &second = pair.second->total_flops;
  return first.count > 0 && second.count > 0 ? first.mean / second.mean : 0;
}

/// @param compute  compute_quotient()
std::string why_no_order(const VariantPair& pair, double compute) {
  if (!pair.first->causal || !pair.second->causal) return "not causal";
  return compute > 0 && std::max(compute, 1 / compute) > kEqualCompute ? "compute differs" : "";
}

PairComparison compared(const VariantPair& pair) {
  PairComparison out{.names = {pair.first->name, pair.second->name},
                     .first = pair.first->label,
                     .second = pair.second->label};
  const auto first = seeds_of(*pair.first), second = seeds_of(*pair.second);
  std::ranges::set_intersection(first, second, std::back_inserter(out.seeds));
  out.all_seeds = first.size() + second.size() - out.seeds.size();
  out.validation_loss = loss_difference(pair, &VariantSummary::validation_loss);
  out.test_loss = loss_difference(pair, &VariantSummary::test_loss);
  out.compute = compute_quotient(pair);
  out.no_order = why_no_order(pair, out.compute);
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
  for (const RunRow* first : pair.first->rows)
    for (const RunRow* second : pair.second->rows) {
      if (first->seed != second->seed) continue;
      const auto mine = figure(*first), theirs = figure(*second);
      if (!mine || !theirs) continue;
      a.push_back(*mine);
      b.push_back(*theirs);
    }
  return a.empty() ? std::nullopt : std::optional(paired_difference(a, b));
}

std::vector<VariantPair> pairs_with_reference(Variants variants, const Comparison& comparison) {
  const VariantSummary* const reference = summary_of(variants, comparison.reference);
  std::vector<VariantPair> out;
  if (!reference) return out;
  for (const VariantSummary& variant : variants)
    if (&variant != reference) out.push_back({&variant, reference});
  return out;
}

std::vector<VariantPair> chosen_pairs(Variants variants, const Comparison& comparison) {
  std::vector<VariantPair> out;
  for (const ChosenPair& names : comparison.pairs) {
    const VariantPair pair = summaries_of(variants, names);
    if (pair.first && pair.second) out.push_back(pair);
  }
  return out;
}

std::vector<PairComparison> compare_all(Variants variants) {
  std::vector<PairComparison> out;
  for (std::size_t i = 0; i < variants.size(); ++i)
    for (std::size_t j = i + 1; j < variants.size(); ++j)
      if (auto pair = compared({&variants[i], &variants[j]}); pair.validation_loss)
        out.push_back(std::move(pair));
  return out;
}

std::vector<PairComparison> compare_shown(Variants variants, const Comparison& comparison) {
  constexpr std::size_t kMostInPairs = 5;
  const auto with_reference = pairs_with_reference(variants, comparison);
  if (variants.size() <= kMostInPairs || with_reference.empty()) return compare_all(variants);
  std::vector<PairComparison> out;
  for (const VariantPair& one : with_reference)
    if (auto pair = compared(one); pair.validation_loss) out.push_back(std::move(pair));
  return out;
}

std::vector<PairComparison> compare_chosen(Variants variants, const Comparison& comparison) {
  std::vector<PairComparison> out;
  for (const ChosenPair& names : comparison.pairs) {
    const VariantPair pair = summaries_of(variants, names);
    if (pair.first && pair.second)
      out.push_back(compared(pair));
    else
      out.push_back({.names = names,
                     .first = pair.first ? pair.first->label : names.first,
                     .second = pair.second ? pair.second->label : names.second});
  }
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
