// Functions that the readers of labelled texts share: they read whole files and check texts and
// labels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::classification {

/// The content of one plain or compressed file. Throws Error for an archive of several.
std::string read_single_file(const std::string& path);

/// Throws Error unless `text` is UTF-8 and has more than white space.
void check_text(std::string_view text, const std::string& file, std::size_t line);

/// The label that the text spells: one digit below `classes`. Throws Error with file and line for
/// other text.
int parse_label(std::string_view text, int classes, const std::string& file, std::size_t line);

}  // namespace penstock::classification
