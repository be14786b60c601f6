// penstock eval MODEL --requests FILE: log-likelihoods for requests of other programs.
#pragma once

#include "penstock/cli/eval_tasks.h"

namespace penstock {

/// Prints one line with a JSON object for each line of `options.requests`. An empty line ends a
/// batch. A batch's answers are printed before the next line is read.
void run_eval_requests(const EvalTasksOptions& options);

}  // namespace penstock
