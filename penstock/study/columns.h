// The columns of the results table, shared by the terminal's and the page's.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/results.h"

namespace penstock::study {

struct Column {
  std::string title;
  std::string explanation;
  std::function<Spread(const VariantSummary&)> value;
  std::function<std::string(double)> format;
  bool lower_is_better = false;

  /// "1.2345 ± 0.0012", "1.2345" for one run, "–" for none.
  std::string text(const VariantSummary& variant) const;
};

/// The columns that at least one variant fills.
std::vector<Column> filled_columns(std::span<const VariantSummary> variants);

/// "1.2345 ± 0.0012" in the column's own number format; the mean alone where nothing varies.
std::string spread_text(const Spread& spread, const std::function<std::string(double)>& format);

/// The same as HTML, the deviation in a line of its own.
std::string spread_html(const Spread& spread, const std::function<std::string(double)>& format);

/// "Dense − ReMoE: +0.0123 ± 0.0010 (sd over 3 seeds; 95 % interval of the mean [..., ...]; ...)".
std::string pair_text(const PairedComparison& pair);

/// "1.23 M", "4.56 G", with `unit` behind.
std::string with_prefix(double value, const std::string& unit);

}  // namespace penstock::study
