// penstock eval MODEL --requests FILE: log-likelihoods of requests that other programs make.
#pragma once

#include "penstock/cli/eval_tasks.h"

namespace penstock {

/// Prints a JSON object a line for each line of `options.requests`. An empty line ends a batch,
/// whose answers are printed before more is read.
void run_eval_requests(const EvalTasksOptions& options);

}  // namespace penstock
