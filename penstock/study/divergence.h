// That a run diverged, kept in its folder (diverged.json), so that it is not trained again at every
// call of its study. Not the training that finds it out (train/run_control.h).
#pragma once

#include <optional>
#include <string>

namespace penstock::study {

/// diverged.json of a run, complete or not at all. `reason` is what the training said.
void write_divergence(const std::string& run_directory, const std::string& reason);
/// The reason that write_divergence wrote there, if any. Throws Error naming a damaged file.
std::optional<std::string> read_divergence(const std::string& run_directory);
/// Removes diverged.json, where there is one, so that the run may be trained again.
void forget_divergence(const std::string& run_directory);

}  // namespace penstock::study
