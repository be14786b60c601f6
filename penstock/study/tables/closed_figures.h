// FLOPs and parameters of a study's variants in closed form, as its [closed_form.NAME] tables
// request them, beside the numbers that a paper prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/config/study_config.h"

namespace penstock::study {

/// One figure of one variant.
struct ClosedFigure {
  /// FLOPs: k and the variant; parameters: the variant and the part.
  std::string row, column;
  std::optional<double> published;  ///< the paper's number
  double computed = 0;              ///< in the table's unit, counted as the paper counts
  double useful = 0;                ///< FLOPs without work whose result is dropped
  bool agrees = false;              ///< `computed`, rounded as the paper prints, equals `published`
  std::string remark;               ///< the table's remark, if it does not agree
};

/// The figures, cell by cell, and within a cell in the order of the variants. A cell skips variants
/// that are not in `variants`. A cell that names no variants skips variants that begin with a
/// model.
///   FLOPs: linear_layer_flops(model, work at k · granularity, or at 1 where the router blends its
///     experts into one) / divisor
///   training FLOPs: published_flops_per_sequence(model) · sequences / divisor
///   parameters: the part's parameters / divisor
/// Throws Error, naming the cell's line, for a k that the variant's model cannot have, and for a
/// variant whose recipe does not define its model.
std::vector<ClosedFigure> closed_figures(const ClosedForm& form, std::span<const Variant> variants);

/// {"table", "title", "unit", "cells": [{"row", "column", "published", "computed", "useful",
/// "agrees", "remark"}]}; published and agrees are null if no paper prints a number.
nlohmann::ordered_json to_json(const ClosedForm& form, std::span<const ClosedFigure> figures);

}  // namespace penstock::study
