// `penstock data prepare`: text files to a corpus.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

void add_data_command(CLI::App& app);

}  // namespace penstock
