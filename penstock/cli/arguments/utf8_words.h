// Checks that the words of the command line are UTF-8. It does not check their meaning.
#pragma once

#include <span>

namespace penstock {

/// Throws Error if a word, or the path of the current folder, is not UTF-8. Recipes, JSON and TOML
/// hold paths as UTF-8 text, so a run at another path could not be found again.
void check_words_are_utf8(std::span<const char* const> words);

}  // namespace penstock
