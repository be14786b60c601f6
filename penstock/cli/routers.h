// `penstock routers`: the methods and parts that the registry knows.
#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

namespace penstock {

/// All methods with the options of their parts, and all parts with their descriptions.
nlohmann::ordered_json routers_json();

/// Adds `penstock routers`: methods and parts, listed.
void add_routers_command(CLI::App& app);

}  // namespace penstock
