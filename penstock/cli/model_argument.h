// MODEL on a command line: a model of any format, or a run directory whose best checkpoint is
// meant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// The model that a command works on.
struct ModelArgument {
  std::string path;                  ///< what open_model_source takes
  std::optional<std::int64_t> step;  ///< of a checkpoint; none for a model from elsewhere
};

/// `path` where it is a checkpoint in one file or holds a config.json; otherwise the run's
/// checkpoint of the lowest validation loss, or its newest. Damaged checkpoints are passed over,
/// each with a line on stderr. Throws Error where there is neither, or none is whole.
ModelArgument model_argument(const std::string& path);

}  // namespace penstock
