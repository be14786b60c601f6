// `penstock init`: writes a first recipe or study, from answers to questions or from options.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

void add_init_command(CLI::App& app);

}  // namespace penstock
