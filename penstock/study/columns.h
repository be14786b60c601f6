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
  /// What a variant's runs without a value have instead, such as "never"; may be null.
  std::function<std::string(const VariantSummary&)> remark = {};

  /// "1.2345 ± 0.0012", "1.2345" for one run, "–" for none, with the remark.
  std::string text(const VariantSummary& variant) const;
  /// The same as HTML, the deviation in a line of its own.
  std::string html(const VariantSummary& variant) const;
  bool filled(const VariantSummary& variant) const;
};

/// The columns that at least one variant fills.
std::vector<Column> filled_columns(std::span<const VariantSummary> variants);

/// When the variant's sparsity settled: "89", "never", "91 ± 2 (2 of 3 runs)"; "–" where nothing
/// steers it.
std::string settled_text(const VariantSummary& variant);

/// "1.2345 ± 0.0012" in the column's own number format; the mean alone where nothing varies.
std::string spread_text(const Spread& spread, const std::function<std::string(double)>& format);

/// The same as HTML, the deviation in a line of its own.
std::string spread_html(const Spread& spread, const std::function<std::string(double)>& format);

/// "Dense − ReMoE: +0.0123 ± 0.0010 (sd over 3 seeds; 95 % interval of the mean [..., ...]; ...)",
/// with the ratio of their compute where it differs.
std::string pair_text(const PairedComparison& pair);

/// "1.23 M", "4.56 G", with `unit` behind.
std::string with_prefix(double value, const std::string& unit);

}  // namespace penstock::study
