// Pieces of HTML from numbers and text. Everything that comes from a file goes through escape().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::study {

/// Text as HTML, safe inside elements and quoted attributes.
std::string escape(std::string_view text);

/// JSON for a <script type="application/json"> element: no character in it can end the element.
std::string script_json(const nlohmann::json& value);

/// A table of plain cells in a place of its own that scrolls; the first line is the head.
std::string cell_table(const std::vector<std::vector<std::string>>& lines);

/// A name and a value of a list of facts; "" without a value.
std::string fact(const std::string& name, const std::string& value);

/// A coloured square in the variant's colour, for rows and captions.
std::string dot(std::size_t variant);

struct HeatRow {
  std::string name;
  std::vector<double> values;
  std::string group;  ///< a heading above the row, where it differs from the row before
};

struct HeatMap {
  std::vector<HeatRow> rows;
  std::vector<std::string> columns;
  double max = 1;    ///< the value of the strongest colour; the weakest is 0
  int digits = 0;    ///< after the point, in the cells
  double scale = 1;  ///< cells show value · scale
  std::string unit;  ///< behind the number in hover texts
};

/// A table of coloured cells. Numbers stand in the cells up to 16 columns and always in hover
/// texts.
std::string heat_map(const HeatMap& map);
/// The legend of the colours.
std::string heat_scale(double max, const std::string& low, const std::string& high);

}  // namespace penstock::study
