// Tables and sections as text for a terminal.
#pragma once

#include <string>

#include "penstock/study/table.h"

namespace penstock::report {

/// A width that no line exceeds.
inline constexpr std::size_t kAnyWidth = std::size_t{1} << 16;

/// The title, the table, the names of omitted columns and the note. The first column is aligned
/// left, the others right; each UTF-8 character counts as one column. If the table is wider than
/// `width`, columns are omitted, those of the highest rank first (the later of two). If no further
/// column may be omitted, the remaining columns continue below, with the first column repeated.
std::string table_text(const study::Table& table, std::size_t width = kAnyWidth);

/// The tables, the heat maps' largest values, the note and the remarks; charts have no text.
std::string section_text(const study::Section& section, std::size_t width = kAnyWidth);

/// The text, which may have several lines, broken between words so that no line exceeds `width`.
/// Continuation lines are indented by two columns more than the line that they continue.
std::string wrapped(const std::string& text, std::size_t width);

}  // namespace penstock::report
