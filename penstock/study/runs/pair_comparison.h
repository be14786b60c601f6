// The comparisons of two variants that a study chooses (pairs), by pairs of runs with the same
// seed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/study/runs/results.h"

namespace penstock::study {

/// The chosen pairs of which both variants have rows, in the file's order.
std::vector<VariantPair> chosen_pairs(Variants variants, const Comparison& comparison);

/// One chosen pair; the differences are first − second.
struct PairComparison {
  ChosenPair names;
  std::string first, second;        ///< labels; names of variants without rows
  std::vector<std::int64_t> seeds;  ///< that both variants have
  std::size_t all_seeds = 0;        ///< that either variant has
  std::optional<PairedDifference> validation_loss, test_loss;
  double compute = 0;  ///< compute_quotient()
  /// Why the differences tell no order: "compute differs" (by more than kEqualCompute) or "not
  /// causal"; "" if they may.
  std::string no_order;
};
/// One for each chosen pair, in the file's order, also where no seed is common.
std::vector<PairComparison> compare_chosen(Variants variants, const Comparison& comparison);

/// [{"first", "second", "seeds", "validation_loss", "test_loss", "compute", "no_order"}]. Losses
/// are as in to_json(PairedDifference), or null.
nlohmann::json to_json(const std::vector<PairComparison>& pairs);

}  // namespace penstock::study
