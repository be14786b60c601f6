// Functions that the readers share: reading whole files, and the checks of texts and labels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::classification {

/// The content of one plain or compressed file. Throws Error for an archive of several.
std::string read_single_file(const std::string& path);

/// Throws Error unless `text` is UTF-8 and has more than white space.
void check_text(std::string_view text, const std::string& file, std::size_t line);

/// A label of one digit below `classes`, or an Error with file and line.
int parse_label(std::string_view text, int classes, const std::string& file, std::size_t line);

}  // namespace penstock::classification
