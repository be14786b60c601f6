// `penstock doctor`: is a model fit to be trained.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock doctor`; sets `exit_code` to 1 where it finds a fault.
void add_doctor_command(CLI::App& app, int& exit_code);

}  // namespace penstock
