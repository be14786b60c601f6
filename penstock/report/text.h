// Tables and sections as text for a terminal.
#pragma once

#include <string>

#include "penstock/study/table.h"

namespace penstock::report {

/// More columns than any line needs.
inline constexpr std::size_t kAnyWidth = std::size_t{1} << 16;

/// The title, the table, what was left out of it and the note. The first column stands to the
/// left, the others to the right; characters of UTF-8 count as one column each. Where that needs
/// more than `width`, columns are left out, those of the highest rank first (the later of two), and
/// said; where none may be, the table goes on below itself with the first column repeated.
std::string table_text(const study::Table& table, std::size_t width = kAnyWidth);

/// The tables, the heat maps' largest values, the note and the remarks; charts have no text.
std::string section_text(const study::Section& section, std::size_t width = kAnyWidth);

/// The text, which may have several lines, broken between words so that no line needs more than
/// `width`; what is broken off is indented as far as the line's own beginning and two more.
std::string wrapped(const std::string& text, std::size_t width);

}  // namespace penstock::report
