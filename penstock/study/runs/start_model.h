// The model that a run of a study begins with: another's, as it is or upcycled.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include "penstock/base/config_node.h"

namespace penstock::study {

/// Puts into `directory` the model at `model` (a run's folder: its newest checkpoint; or any
/// model), or with a non-empty `upcycle` the MoE that penstock/convert makes of it: the keys are
/// those of `penstock upcycle`, calibration text is the recipe's corpus unless they name one, and
/// draws are seeded with the recipe's seed. Throws Error for what upcycling refuses.
/// @param force  make also what takes more memory or disk than there is
/// @param key_folder  keeps the mean keys of models and texts for those that begin with the same
void begin_with(const std::string& model, const ConfigNode& upcycle, const ConfigNode& resolved,
                const std::string& directory, const std::filesystem::path& key_folder, bool force,
                std::FILE* progress);

}  // namespace penstock::study
