// `penstock generate`: text from a model.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock generate`. Sets `exit_code` to 130 if a signal ended the text.
void add_generate_command(CLI::App& app, int& exit_code);

}  // namespace penstock
