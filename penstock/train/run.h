// One training run in a run directory, from a recipe to finished.json; resumable at any point.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/train/run_control.h"

namespace penstock {

/// Trains (or resumes) the recipe in that run directory: config.toml, metrics.jsonl, TensorBoard
/// events, checkpoints/step-N/, finished.json. SIGINT, SIGTERM and SIGHUP save a checkpoint of the
/// last complete step and return `interrupted`, between the layers of a step (which is given up),
/// between steps and in the final evaluation (which a resumed run repeats).
/// Throws Error for bad recipes and those whose training takes more memory than is free (unless
/// forced), for a directory that holds another recipe's run, on a full disk (the earlier checkpoint
/// stays), and DivergedError.
RunOutcome train_run(const ConfigNode& recipe, const std::string& run_directory,
                     const TrainControl& control);

}  // namespace penstock
