// `penstock eval`: loss, perplexity and bits per byte of a model on a corpus.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock eval`: the loss of a model on a corpus.
void add_eval_command(CLI::App& app);

}  // namespace penstock
