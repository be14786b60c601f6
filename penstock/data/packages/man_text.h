// The text of manual pages, out of their source. Not a formatter: macros of man(7) alone, no
// tables, no numbers of columns.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Headings, paragraphs and examples of a page in roff with the macros of man(7), as plain UTF-8
/// with a blank line between paragraphs. Fonts, sizes, comments, tables and definitions of macros
/// are left out, characters by name become themselves. Empty where the page is a reference to
/// another
/// (".so") or in other macros (mdoc(7)). Source: groff_man(7), groff_char(7).
std::string man_text(std::string_view page);

}  // namespace penstock
