// The loop that runs a training or a fine-tuning in its directory. It claims and locks the
// directory, continues from the last checkpoint, logs each step, measures, saves, stops on a
// signal, and writes the result. A RunTask defines the step, the measurement and the result.
#pragma once

#include <string>

#include "penstock/train/run_control.h"
#include "penstock/train/run_task.h"

namespace penstock {

/// Runs the task in that directory, or continues it there. On SIGINT, SIGTERM and SIGHUP it saves a
/// checkpoint of the last complete step and returns `interrupted`. It stops between steps, between
/// the layers of a step (which is given up) and in measurements (which a resumed run repeats).
/// Throws Error for a directory that holds another run and on a full disk (the earlier checkpoint
/// stays). Throws DivergedError if a loss or a gradient is not finite.
RunOutcome run_task(RunTask& task, const std::string& directory, const TrainControl& control);

}  // namespace penstock
