// `penstock serve`: a model over HTTP.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

void add_serve_command(CLI::App& app, int& exit_code);

}  // namespace penstock
