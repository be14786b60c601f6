#include "penstock/study/table.h"

#include <fmt/format.h>

#include <cmath>

#include "penstock/base/nonfinite.h"
#include "penstock/study/json_field.h"

namespace penstock::study {
namespace {

constexpr std::string_view kBeneath = "  ";  // prefix of a row's first cell if `beneath`

}  // namespace

std::vector<std::vector<std::string>> lines_of(const Table& table) {
  std::vector<std::vector<std::string>> out(1);
  for (const auto& column : table.columns) out[0].push_back(column.title);
  for (const auto& row : table.rows) {
    auto& line = out.emplace_back();
    for (const auto& cell : row.cells) line.push_back(cell.whole());
    if (row.beneath) line[0].insert(0, kBeneath);
  }
  return out;
}

nlohmann::json to_json(const Table& table) {
  return {{"title", table.title}, {"note", table.note}, {"lines", lines_of(table)}};
}

Table table_from_json(const nlohmann::json& object, const std::string& where) {
  Table out{.title = field_of<std::string>(object, "title", where),
            .note = field_of<std::string>(object, "note", where)};
  const auto lines = field_of<std::vector<std::vector<std::string>>>(object, "lines", where);
  PENSTOCK_CHECK(!lines.empty(), where, ": a table has no lines");
  out.columns.assign(lines[0].begin(), lines[0].end());
  for (const auto& line : lines) {
    PENSTOCK_CHECK(!line.empty() && line.size() == lines[0].size(), where,
                   ": lines of a table are not equally long");
    if (&line == &lines[0]) continue;
    TableRow& row = out.rows.emplace_back();
    row.cells.assign(line.begin(), line.end());
    row.beneath = line[0].starts_with(kBeneath);
    if (row.beneath) row.cells[0].text.erase(0, kBeneath.size());
  }
  return out;
}

Cell spread_cell(const Spread& spread, const std::function<std::string(double)>& format) {
  if (spread.count == 0) return "–";
  const bool varies = spread.sd && *spread.sd != 0;
  return {format(spread.mean), varies ? "± " + format(*spread.sd) : ""};
}

std::function<std::string(double)> fixed(int digits) {
  return [digits](double value) { return fmt::format("{:.{}f}", plain_nan(value), digits); };
}

std::string with_prefix(double value, const std::string& unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t index = 0;
  while (std::abs(value) >= 999.5 && index + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++index;
  }
  const int digits = index == 0 ? 0 : std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  const std::string suffix = kPrefixes[index] + unit;
  return fixed(digits)(value) + (suffix.empty() ? "" : " ") + suffix;
}

std::string number_or_dash(const std::optional<double>& number, const char* format) {
  return number ? fmt::format(fmt::runtime(format), *number) : "–";
}

}  // namespace penstock::study
