// `penstock manual`: manual pages and shell completions, for packages.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

/// To be added after all other commands.
void add_manual_command(CLI::App& app);

}  // namespace penstock
