// `penstock study`: variants × seeds, a table and a report.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock study`. Sets `exit_code` to 130 if the study was interrupted (its state is
/// saved).
void add_study_command(CLI::App& app, int& exit_code);

}  // namespace penstock
