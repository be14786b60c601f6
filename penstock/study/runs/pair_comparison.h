// The differences of two variants, or of two groups of variants, by seeds: of all pairs, of those
// with the reference, and of those that a study chooses (pairs).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/study/config/comparison.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/statistics.h"
#include "penstock/study/table.h"

namespace penstock::study {

/// Two sides whose difference is first − second. A side is a variant or a group, whose figure is
/// the mean of its variants' figures.
struct VariantPair {
  ChosenPair names;
  std::string label;                                 ///< the study's, or "first − second"
  std::vector<const VariantSummary*> first, second;  ///< not empty
};
/// The differences over the seeds at which every variant of both sides has the figure; nothing if
/// there is no such seed.
std::optional<PairedDifference> difference_of(const VariantPair& pair, const Figure& figure);
/// Each of the other variants with the reference, in their order; none without the reference.
std::vector<VariantPair> pairs_with_reference(Variants variants, const Comparison& comparison);
/// The chosen pairs of which every variant has rows, in the file's order.
std::vector<VariantPair> chosen_pairs(Variants variants, const Comparison& comparison);

/// What a report says of two variants or groups; the differences are first − second.
struct PairComparison {
  ChosenPair names;
  std::string label;                ///< the study's, or "first − second"
  std::string first, second;        ///< the variants' labels; names of variants without rows
  std::vector<std::int64_t> seeds;  ///< that every variant has
  std::size_t all_seeds = 0;        ///< that any variant has
  std::optional<PairedDifference> validation_loss, test_loss;
  double compute = 0;  ///< the first's mean training FLOPs ÷ the second's; 0: not stated
  /// Why the differences tell no order: "compute differs" (by more than kEqualCompute) or "not
  /// causal" (of any variant); "" if they may.
  std::string no_order;
};
/// Every two variants that have the validation loss of at least one seed in common.
std::vector<PairComparison> compare_all(Variants variants);
/// The comparisons that reports show of every study: all if there are few variants, or else each
/// variant minus the reference.
std::vector<PairComparison> compare_shown(Variants variants, const Comparison& comparison);
/// One for each chosen pair, in the file's order, also where no seed is common.
std::vector<PairComparison> compare_chosen(Variants variants, const Comparison& comparison);

/// "+0.0123" followed by the 95 % interval of the mean, or by "one seed".
Cell difference_cell(const PairedDifference& paired);

/// compare_all() for results.json: [{"first", "second" (labels), "seeds", the keys of the
/// validation loss's to_json(PairedDifference), "test_loss", "compute", "no_order"}].
nlohmann::json all_pairs_json(Variants variants);
/// compare_chosen() for results.json: [{"first", "second" (names, of groups in lists), "label" (if
/// the study gives one), "seeds", "validation_loss", "test_loss", "compute", "no_order"}]. Losses
/// are as in to_json(PairedDifference), or null.
nlohmann::json chosen_pairs_json(Variants variants, const Comparison& comparison);

}  // namespace penstock::study
