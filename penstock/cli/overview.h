// `penstock` without a command on a terminal: the contents of the current folder, and the commands
// for them.
#pragma once

#include <string>

namespace penstock {

/// Lists the recipes, studies, corpora, runs and models of the folder and of the two levels below,
/// and the next commands for them. Of a folder that is itself a run, a finished study, a model or a
/// corpus it says that, with the commands for it. Reads names and TOML files; opens no model.
std::string overview(const std::string& folder);

}  // namespace penstock
