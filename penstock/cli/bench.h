// `penstock bench`: measures the machine, a training step or a layer.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock bench`: the machine, a training step or a layer, measured.
void add_bench_command(CLI::App& app);

}  // namespace penstock
