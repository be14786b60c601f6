// `penstock export`: writes a model as files for other programs.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock export`.
void add_export_command(CLI::App& app);

}  // namespace penstock
