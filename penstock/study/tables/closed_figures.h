// FLOPs and parameters of a study's variants in closed form, as its [closed_form.NAME] tables ask,
// with the numbers that a paper prints beside.
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
  std::string row, column;          ///< FLOPs: k and the variant; parameters: it and the part
  std::optional<double> published;  ///< by the paper
  double computed = 0;              ///< in the table's unit, as the paper counts
  double useful = 0;                ///< FLOPs: without work whose result is dropped
  bool agrees = false;              ///< computed, rounded as the paper prints, is the paper's
  std::string remark;               ///< the table's, where it does not
};

/// Cell by cell, and in each cell by the order of the variants; a cell leaves out those that are
/// not among `variants`. One that names none leaves out those that begin with a model.
///   FLOPs: linear_layer_flops(model, work at k · granularity, or at 1 where the router blends its
///     experts into one) / divisor
///   parameters: those of the part / divisor
/// Throws Error, naming the cell's line, for a k that the variant's model cannot have and for one
/// whose recipe does not say what it is.
std::vector<ClosedFigure> closed_figures(const ClosedForm& form, std::span<const Variant> variants);

/// {"table", "title", "unit", "cells": [{"row", "column", "published", "computed", "useful",
/// "agrees", "remark"}]}; published and agrees are null where no paper prints a number.
nlohmann::ordered_json to_json(const ClosedForm& form, std::span<const ClosedFigure> figures);

}  // namespace penstock::study
