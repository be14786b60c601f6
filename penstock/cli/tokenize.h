// `penstock tokenize`: turns a text into tokens, and tokens into text.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock tokenize`: token ids of a text, or the text of ids.
void add_tokenize_command(CLI::App& app);

}  // namespace penstock
