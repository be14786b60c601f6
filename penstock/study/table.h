// A study's output as data: tables, heat maps and charts in sections. penstock/report renders them
// on a terminal and on a page.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/study/statistics.h"

namespace penstock::study {

struct Cell {
  std::string text;
  std::string more;   ///< text after it, such as a deviation; smaller on the page
  bool best = false;  ///< tinted on the page

  Cell(std::string text = {}, std::string more = {})
      : text(std::move(text)), more(std::move(more)) {}
  Cell(const char* text) : text(text) {}
  /// `text` and `more`, with a space between them.
  std::string whole() const { return more.empty() ? text : text + " " + more; }
};

struct TableColumn {
  std::string title;
  std::string explanation = {};             ///< shown when the mouse is over the title on the page
  int rank = 0;                             ///< a narrow terminal leaves out the highest rank first
  std::optional<std::size_t> variant = {};  ///< whose colour the page shows beside the title
  TableColumn(std::string title) : title(std::move(title)) {}
  TableColumn(const char* title) : title(title) {}
  TableColumn(std::string title, std::string explanation, int rank = 0)
      : title(std::move(title)), explanation(std::move(explanation)), rank(rank) {}
};

struct TableRow {
  std::vector<Cell> cells;
  bool beneath = false;  ///< belongs to the row before it, as a paper's numbers do
  std::optional<std::size_t> variant = {};  ///< whose colour the page shows
};

struct Table {
  std::string title;
  std::string note = {};  ///< below the table
  std::vector<TableColumn> columns = {};
  std::vector<TableRow> rows = {};
  std::string look = {};  ///< class of the page's style sheet
  bool folded = false;    ///< the page shows it collapsed
};

/// The cells as text by line; the first line is the head.
std::vector<std::vector<std::string>> lines_of(const Table& table);
/// {"title", "note", "lines": lines_of(table)}.
nlohmann::json to_json(const Table& table);
/// Reads what to_json wrote. Throws Error naming `where`.
Table table_from_json(const nlohmann::json& object, const std::string& where);

/// Values by row and column, shown by colour.
struct HeatRow {
  std::string name;
  std::vector<double> values;
  std::string group;  ///< a heading above the row, if it differs from the row before
};
struct HeatMap {
  std::vector<HeatRow> rows;
  std::vector<std::string> columns;
  double max = 1;    ///< the value of the strongest colour; the weakest is 0
  int digits = 0;    ///< digits after the point, in the cells
  double scale = 1;  ///< cells show value · scale
  std::string unit;  ///< unit after the number in hover texts

  /// Name of the column, or its number if it has no name.
  std::string column(std::size_t i) const {
    return i < columns.size() ? columns[i] : std::to_string(i);
  }
};
struct NamedMap {
  std::string name;
  std::optional<std::size_t> variant = {};  ///< whose colour the page shows
  HeatMap map = {};
  std::string caption = {};
};

/// A line chart with its place on the page.
struct Chart {
  std::string section = {};
  std::string title, caption;
  nlohmann::json drawn;  ///< "id", "series", axes, bands and lines, for the page's script
};

/// The tone of a remark: plain, a warning, or a detail that the page collapses.
enum class Tone { plain, warning, detail };
struct Remark {
  std::string text;
  Tone tone = Tone::plain;
};

/// Parts of a report that belong together; each may be empty.
struct Section {
  std::string title;
  std::vector<Chart> charts = {};
  std::vector<Table> tables = {};
  std::vector<NamedMap> maps = {};
  std::vector<Remark> remarks = {};
  std::string note = {};  ///< note on the whole section
};

/// The mean, followed by "± sd" if it varies; "–" for no value.
Cell spread_cell(const Spread& spread, const std::function<std::string(double)>& format);

/// Formats with `digits` digits after the point.
std::function<std::string(double)> fixed(int digits);
/// Formats as "1.23 M" or "4.56 G", followed by `unit`.
std::string with_prefix(double value, const std::string& unit);
/// Formats the number with `format`, or gives "–" for no number.
std::string number_or_dash(const std::optional<double>& number, const char* format = "{:g}");

}  // namespace penstock::study
