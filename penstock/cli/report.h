// `penstock report`: draws the page of a run or a study again.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock report`: the page of a run or a study.
void add_report_command(CLI::App& app);

}  // namespace penstock
