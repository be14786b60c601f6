// Accuracies of zero-shot tasks beside published ones.
#pragma once

#include <span>
#include <vector>

#include "penstock/study/config/comparison.h"
#include "penstock/study/runs/run_row.h"
#include "penstock/study/table.h"

namespace penstock::study {

/// A table by variant and task, the tasks on which no run does better than guessing, and the tasks
/// that a model could not be given; empty if no row has a result.
std::vector<Section> accuracy_sections(std::span<const RunRow> rows, const Comparison& comparison);

}  // namespace penstock::study
