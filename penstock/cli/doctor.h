// `penstock doctor`: checks whether a model is fit for training.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock doctor`. Sets `exit_code` to 1 if the doctor finds a fault.
void add_doctor_command(CLI::App& app, int& exit_code);

}  // namespace penstock
