// `penstock upcycle`: an MoE from a dense checkpoint.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock upcycle`.
void add_upcycle_command(CLI::App& app);

}  // namespace penstock
