// MODEL on a command line: a model directory, or a run directory whose best checkpoint is meant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// The model that a command works on.
struct ModelArgument {
  std::string directory;
  std::optional<std::int64_t> step;  ///< of a checkpoint; none for a model from elsewhere
};

/// `path` where it holds a config.json; otherwise the run's checkpoint of the lowest validation
/// loss, or its newest. Damaged checkpoints are passed over, each with a line on stderr. Throws
/// Error where there is neither, or none is whole.
ModelArgument model_argument(const std::string& path);

}  // namespace penstock
