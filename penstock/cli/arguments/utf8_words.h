// The words of the command line as text. It checks their bytes, not their meaning.
#pragma once

#include <span>

namespace penstock {

/// Throws Error if a word, or the path of the current folder, is not UTF-8. Recipes, JSON and TOML
/// hold paths as UTF-8 text, so a run could not be read again by such a path.
void check_words_are_utf8(std::span<const char* const> words);

}  // namespace penstock
