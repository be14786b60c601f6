// What a study shows without training: its settings, as papers print them, and HyperRouter's closed
// forms.
#pragma once

#include <functional>
#include <vector>

#include "penstock/analysis/published_tables.h"
#include "penstock/study/config/study_config.h"
#include "penstock/study/tables/table.h"

namespace penstock::study {

/// One of HyperRouter's closed forms beside the paper's cells.
Table closed_form(const analysis::PublishedTable& table);

/// The tables of study.report in its order: "settings" of the variants' recipes (HyperRouter's
/// Table A1) and of the measurements (A2), with the paper's beneath, "A3" and "A4" in closed form
/// with the paper's cells. `resolve` completes a recipe.
std::vector<Table> closed_tables(const StudyConfig& study,
                                 const std::function<ConfigNode(const ConfigNode&)>& resolve);

}  // namespace penstock::study
