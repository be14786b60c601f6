// Finds the first steps of ReMoE's three natural stages, by a rule that reads only the sparsity's
// curve.
#pragma once

#include <span>
#include <string_view>

#include "penstock/study/runs/run_row.h"

namespace penstock::study {

/// The rule in words, for the caption of the plot.
extern const std::string_view kStageRule;

/// Finds the stages of a run from its sparsity at every step (steps[i], sparsity[i]).
///   settled:     as settled_step() of the trainer: the trailing 20-step mean is within
///                settle_tolerance() of `target` and stays so for the next 20 steps
///   sparsifying: after the minimum of the 5-step mean before that, the first step whose 5-step
///                mean has gone a tenth of the way from the minimum to the target
/// Source: the stages of ReMoE §3.5 (arXiv:2412.14711), which gives no border; the rule is ours.
Stages find_stages(std::span<const double> steps, std::span<const double> sparsity, double target);

/// Means of a quantity over the steps of each stage. Without a border all steps belong to stage I.
StageMeans stage_means(const Curve& curve, const Stages& stages);

}  // namespace penstock::study
