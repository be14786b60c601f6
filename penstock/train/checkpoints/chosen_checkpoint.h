// Chooses the checkpoint to read when a user gives a run directory as a model. The run may still be
// training and may remove checkpoints during reading.
#pragma once

#include <exception>
#include <filesystem>
#include <string>

#include "penstock/train/checkpoints/checkpoints.h"

namespace penstock {

/// Whether the folder is a run directory: it holds checkpoints and is not itself a model.
bool is_run_directory(const std::string& path);

/// The run's checkpoint with the lowest validation loss, or its newest checkpoint if none was
/// validated. `ignored` has a sentence for each checkpoint that was passed over as damaged. Throws
/// Error if no checkpoint is intact.
CheckpointSearch chosen_checkpoint(FileSystem& fs, const std::string& run_directory);

/// The most times that using_what_is_there() chooses a checkpoint.
inline constexpr int kMostChoices = 10;

/// Returns use(model) for model = choose(), whose directory is `model.path`. If `use` throws and
/// the directory is gone, training has removed it: calls gone(model) and chooses again,
/// kMostChoices times in all. Any other exception goes on to the caller.
template <class Choose, class Use, class Gone>
auto using_what_is_there(Choose choose, Use use, Gone gone) {
  for (int choice = 1;; ++choice) {
    const auto model = choose();
    try {
      return use(model);
    } catch (const std::exception&) {
      if (choice == kMostChoices || std::filesystem::exists(model.path)) throw;
      gone(model);
    }
  }
}

}  // namespace penstock
