// penstock view DIR: a run or a study in a browser.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

void add_view_command(CLI::App& app, int& exit_code);

}  // namespace penstock
