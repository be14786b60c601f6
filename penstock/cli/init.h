// `penstock init`: a recipe or a study to begin with, by questions or by options.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

void add_init_command(CLI::App& app);

}  // namespace penstock
