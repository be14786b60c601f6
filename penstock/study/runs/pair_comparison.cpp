#include "penstock/study/runs/pair_comparison.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/study/runs/equal_compute.h"

namespace penstock::study {
namespace {

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

std::string why_no_order(const VariantPair& pair) {
  if (!pair.first->causal || !pair.second->causal) return "not causal";
  const VariantSummary both[] = {*pair.first, *pair.second};
  return compute_ratio(both) > kEqualCompute ? "compute differs" : "";
}

/// Fills in what needs rows of both variants.
void fill_in(PairComparison& out, const VariantPair& pair) {
  const auto first = seeds_of(*pair.first), second = seeds_of(*pair.second);
  std::ranges::set_intersection(first, second, std::back_inserter(out.seeds));
  out.all_seeds = first.size() + second.size() - out.seeds.size();
  out.validation_loss = loss_difference(pair, &VariantSummary::validation_loss);
  out.test_loss = loss_difference(pair, &VariantSummary::test_loss);
  out.compute = compute_quotient(pair);
  out.no_order = why_no_order(pair);
}

nlohmann::json json_of(const std::optional<PairedDifference>& paired) {
  return paired ? to_json(*paired) : nlohmann::json();
}

}  // namespace

std::vector<VariantPair> chosen_pairs(Variants variants, const Comparison& comparison) {
  std::vector<VariantPair> out;
  for (const ChosenPair& names : comparison.pairs) {
    const VariantPair pair = summaries_of(variants, names);
    if (pair.first && pair.second) out.push_back(pair);
  }
  return out;
}

std::vector<PairComparison> compare_chosen(Variants variants, const Comparison& comparison) {
  std::vector<PairComparison> out;
  for (const ChosenPair& names : comparison.pairs) {
    const VariantPair pair = summaries_of(variants, names);
    PairComparison& one = out.emplace_back();
    one.names = names;
    one.first = pair.first ? pair.first->label : names.first;
    one.second = pair.second ? pair.second->label : names.second;
    if (pair.first && pair.second) fill_in(one, pair);
  }
  return out;
}

nlohmann::json to_json(const std::vector<PairComparison>& pairs) {
  using nlohmann::json;
  json out = json::array();
  for (const PairComparison& pair : pairs) {
    out.push_back(write_json(pair.names));
    out.back().update({{"seeds", pair.seeds},
                       {"validation_loss", json_of(pair.validation_loss)},
                       {"test_loss", json_of(pair.test_loss)},
                       {"compute", pair.compute > 0 ? json(pair.compute) : json()},
                       {"no_order", pair.no_order.empty() ? json() : json(pair.no_order)}});
  }
  return out;
}

}  // namespace penstock::study
