// `penstock routers`: the methods and parts that the registry knows.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock routers`: methods and parts, listed.
void add_routers_command(CLI::App& app);

}  // namespace penstock
