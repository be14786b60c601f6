// The columns of the results table, shared by the terminal's and the page's.
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
  int rank = 0;  ///< as a TableColumn's
  bool lower_is_better = false;
  /// The text for a variant whose runs have no value, such as "never"; may be null.
  std::function<std::string(const study::VariantSummary&)> remark = {};
  bool of_machine = false;  ///< what the run took of the machine: speed, memory

  /// "1.2345 ± 0.0012", "1.2345" for one run, "–" for none, with the remark.
  study::Cell cell(const study::VariantSummary& variant) const;
  bool filled(const study::VariantSummary& variant) const;
};

/// The columns that at least one variant fills.
std::vector<ResultColumn> filled_columns(study::Variants variants);

/// When the variant's sparsity settled: "89", "never", "91 ± 2 (2 of 3 runs)"; "–" where nothing
/// steers it.
study::Cell settled_cell(const study::VariantSummary& variant);

}  // namespace penstock::report
