// `penstock manual`: manual pages and shell completions, for packages.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

/// Adds `penstock manual`. Call it after all other commands are added.
void add_manual_command(CLI::App& app);

}  // namespace penstock
