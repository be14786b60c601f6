// MODEL on a command line: a model directory, or a run directory whose best checkpoint is meant.
#pragma once

#include <string>

namespace penstock {

/// `path` where it holds a config.json; otherwise the run's checkpoint of the lowest validation
/// loss, or its newest. Throws Error where there is neither.
std::string model_argument(const std::string& path);

}  // namespace penstock
