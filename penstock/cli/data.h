// `penstock data prepare`: text files to a corpus.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock data`: preparing corpora.
void add_data_command(CLI::App& app);

}  // namespace penstock
