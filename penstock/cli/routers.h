// `penstock routers`: the methods and parts that the registry knows.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

void add_routers_command(CLI::App& app);

}  // namespace penstock
