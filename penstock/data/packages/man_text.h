// Extracts the text of manual pages from their source. It is not a formatter: it knows only the
// macros of man(7), and ignores tables and column numbers.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Headings, paragraphs and examples of a page in roff with the macros of man(7), as plain UTF-8
/// with a blank line between paragraphs. Fonts, sizes, comments, tables and definitions of macros
/// are left out; named characters become UTF-8. Empty if the page refers to another page (".so") or
/// uses other macros (mdoc(7)). Source: groff_man(7), groff_char(7).
std::string man_text(std::string_view page);

}  // namespace penstock
