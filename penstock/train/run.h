// One training run in a run directory, from a recipe to finished.json; resumable at any point.
#pragma once

#include <cstdio>
#include <string>

#include "penstock/base/config_node.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"

namespace penstock {

struct TrainControl {
  bool resume = true;  ///< continue what the directory holds; false: the directory must be new
  bool quiet = false;  ///< no progress
  bool force = false;  ///< try also what takes more memory than there is
  std::FILE* progress = stderr;
  FileSystem* files = nullptr;  ///< what is written goes through it; null: the system's files
};

/// A loss or a gradient was not finite. The last good step is saved; the message names the layer.
class DivergedError : public Error {
 public:
  using Error::Error;
};

enum class RunOutcome { finished, interrupted };

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
