// Pieces of HTML from numbers and text. Everything that comes from a file goes through escape().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/study/table.h"

namespace penstock::report {

/// Text as HTML, safe inside elements and quoted attributes.
std::string escape(std::string_view text);

/// JSON for a <script type="application/json"> element, escaped so that it cannot end the element.
std::string script_json(const nlohmann::json& value);

/// The table without title and note, in its own scrolling element.
std::string table_html(const study::Table& table);

/// A section as HTML: the heading, then `under` (more HTML), remarks, charts, tables, heat maps and
/// note. Tables without rows are left out; "" if nothing is left.
std::string section_html(const study::Section& section, const std::string& under = "");

/// The head of a page's body: the title, the question (may be empty), and names with values. Names
/// without a value are left out.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string heading(const std::string& title, const std::string& claim, const Facts& facts);

/// A coloured square in the variant's colour, for rows and captions.
std::string dot(std::size_t variant);

/// A table of coloured cells. Hover texts show the numbers; with at most 16 columns the cells show
/// them too.
std::string heat_map(const study::HeatMap& map);

/// The text for browsers without JavaScript, which draw no charts.
inline constexpr const char* kNoScript =
    "<noscript><p class=\"note\">The line charts need JavaScript; everything else is "
    "here.</p></noscript>";

}  // namespace penstock::report
