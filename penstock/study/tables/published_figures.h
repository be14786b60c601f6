// Tables of a run's figures beside the figures that a paper prints: validation loss, the step at
// which the sparsity settled, and the hours of ReMoE's three stages.
#pragma once

#include <optional>
#include <vector>

#include "penstock/study/config/comparison.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/table.h"

namespace penstock::study {

/// Wall-clock hours of stages I, II and III and in total, from the row's "seconds"; nothing if the
/// row has no "seconds", or if the run ended before a border.
/// @param borders  of this run, or of the run whose stages it is compared with
std::optional<std::vector<double>> stage_hours(const RunRow& row, const Stages& borders);

/// Losses and settled steps, or hours by stage, with the paper's figures beneath each variant. The
/// table has no rows if the paper prints none of them. A variant without stages uses the borders of
/// the first run with the same seed that has stages.
Table published_losses(Variants variants, const Comparison& comparison);
Table published_hours(Variants variants, const Comparison& comparison);

}  // namespace penstock::study
