// `penstock eval`: loss, perplexity and bits per byte of a model on a corpus.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

void add_eval_command(CLI::App& app);

}  // namespace penstock
