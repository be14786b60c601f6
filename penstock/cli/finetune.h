// `penstock finetune`: text classification on a pretrained model.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock finetune`; `exit_code` becomes 130 where it was interrupted.
void add_finetune_command(CLI::App& app, int& exit_code);

}  // namespace penstock
