// The figures of a run that a paper may print beside a variant: its validation loss, the step at
// which its sparsity settled, and the hours that ReMoE's three stages took.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/study/config/comparison.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/table.h"

namespace penstock::study {

/// Hours of wall clock of stages I, II and III and in all, by the row's own clock; nothing where it
/// has none, or the run ended before a border.
/// @param borders  of this run, or of the one whose stages it is held against
std::optional<std::vector<double>> stage_hours(const RunRow& row, const Stages& borders);

/// Losses and settling, or hours by stage, with the paper's beneath each variant; without rows
/// where a paper prints none of them. A variant without stages is cut at those of the same seed's
/// first run that has them.
Table published_losses(Variants variants, const Comparison& comparison);
Table published_hours(Variants variants, const Comparison& comparison);

}  // namespace penstock::study
