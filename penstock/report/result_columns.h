// The columns of the results table, for the terminal and the page.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/study/runs/results.h"

namespace penstock::report {

struct ResultColumn {
  std::string title, explanation;
  std::function<study::Spread(const study::VariantSummary&)> value;
  std::function<std::string(double)> format;
  int rank = 0;  ///< see TableColumn::rank
  bool lower_is_better = false;
  /// The text for a variant whose runs have no value, such as "never"; may be null.
  std::function<std::string(const study::VariantSummary&)> remark = {};
  bool of_machine = false;  ///< whether it measures the machine's work: speed, memory

  /// "1.2345 ± 0.0012", "1.2345" for one run, "–" for none, with the remark.
  study::Cell cell(const study::VariantSummary& variant) const;
  bool filled(const study::VariantSummary& variant) const;
};

/// The columns that at least one variant fills.
std::vector<ResultColumn> filled_columns(study::Variants variants);

/// The step at which the variant's sparsity settled: "89", "never", "91 ± 2 (2 of 3 runs)"; "–" if
/// nothing steers it.
study::Cell settled_cell(const study::VariantSummary& variant);

}  // namespace penstock::report
