// `penstock finetune`: text classification on a pretrained model.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock finetune`. Sets `exit_code` to 130 if it was interrupted.
void add_finetune_command(CLI::App& app, int& exit_code);

}  // namespace penstock
