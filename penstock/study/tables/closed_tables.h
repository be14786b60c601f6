// Makes the tables that a study shows without training: its settings in the form of papers, and its
// figures in closed form.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "penstock/study/config/study_config.h"
#include "penstock/study/table.h"
#include "penstock/study/tables/closed_figures.h"

namespace penstock::study {

/// Figures in closed form, beside the paper's figures if it prints any.
Table closed_form_table(const ClosedForm& form, std::span<const ClosedFigure> figures);

/// The tables of study.report in its order. "settings" has the settings of the variants' recipes
/// (HyperRouter's Table A1) and of the measurements (A2), with the paper's beneath. "closed-forms"
/// has the figures.
/// `resolve` completes a recipe.
std::vector<Table> closed_tables(const StudyConfig& study,
                                 const std::function<ConfigNode(const ConfigNode&)>& resolve);

}  // namespace penstock::study
