// One training run in a run directory, from a recipe to finished.json; resumable at any point.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/train/run_control.h"

namespace penstock {

/// Trains the recipe in that run directory, or resumes it there. Writes config.toml, metrics.jsonl,
/// TensorBoard events, checkpoints/step-N/ and finished.json.
/// On SIGINT, SIGTERM and SIGHUP it saves a checkpoint of the last complete step and returns
/// `interrupted`. It stops between steps, between the layers of a step (which is given up) and in
/// the final evaluation (which a resumed run repeats).
/// Throws Error for bad recipes, for recipes whose training takes more memory than is free (unless
/// forced), for a directory that holds another recipe's run, and on a full disk (the earlier
/// checkpoint stays). Throws DivergedError if a loss or a gradient is not finite.
RunOutcome train_run(const ConfigNode& recipe, const std::string& run_directory,
                     const TrainControl& control);

}  // namespace penstock
