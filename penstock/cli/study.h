// `penstock study`: variants × seeds, a table and a report.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// `exit_code` is set to 130 when the study was interrupted (its state saved).
void add_study_command(CLI::App& app, int& exit_code);

}  // namespace penstock
