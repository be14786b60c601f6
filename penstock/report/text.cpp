#include "penstock/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

namespace penstock::report {
namespace {

using namespace study;

constexpr std::size_t kGap = 2;      // between columns
constexpr std::size_t kLargest = 6;  // shown values of a heat map's row

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<std::size_t> widths_of(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> out(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) out[i] = std::max(out[i], width_of(line[i]));
  return out;
}

/// The columns beside the first that fit into `room`. Columns are dropped by rank, highest rank
/// first; of two equal ranks the later column is dropped first. Columns with rank 0 are never
/// dropped.
std::vector<std::size_t> fitting(const Table& table, const std::vector<std::size_t>& widths,
                                 std::size_t room) {
  std::vector<std::size_t> out(widths.size() - 1);
  std::iota(out.begin(), out.end(), 1);
  const auto rank = [&](std::size_t column) { return table.columns[column].rank; };
  std::size_t needed = std::reduce(widths.begin(), widths.end()) + kGap * out.size();
  while (needed > room) {
    const auto least = std::ranges::max_element(out.rbegin(), out.rend(), {}, rank);
    if (least == out.rend() || rank(*least) == 0) break;
    needed -= kGap + widths[*least];
    out.erase(std::next(least).base());
  }
  return out;
}

/// Splits the columns into groups. Each group fits beside the first column, or has one column.
std::vector<std::vector<std::size_t>> blocks(const std::vector<std::size_t>& columns,
                                             const std::vector<std::size_t>& widths,
                                             std::size_t room) {
  std::vector<std::vector<std::size_t>> out(1);
  std::size_t used = widths[0];
  for (const std::size_t i : columns) {
    if (!out.back().empty() && used + kGap + widths[i] > room) {
      out.emplace_back();
      used = widths[0];
    }
    out.back().push_back(i);
    used += kGap + widths[i];
  }
  return out;
}

std::string heat_text(const Section& section, std::size_t width) {
  Table table{.columns = {"variant", "", "", "column: value, largest first"}};
  for (const auto& [name, variant, map, caption] : section.maps) {
    for (const auto& row : map.rows) {
      std::vector<std::size_t> order(row.values.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return row.values[i]; });
      std::string list;
      for (std::size_t i = 0; i < std::min(order.size(), kLargest); ++i)
        list += fmt::format("{:>4}:{:5.{}f}", map.column(order[i]),
                            map.scale * row.values[order[i]], map.digits + 1);
      table.rows.push_back(
          {{name, row.group, row.name, list + (order.size() > kLargest ? " .." : "") + map.unit}});
    }
  }
  return table_text(table, width);
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::string indent(begin + 2, ' ');
    while (width_of(line) > width) {
      // The last space that the line may be cut at to fit, or the first space if no cut fits.
      std::size_t end = 0;
      for (std::size_t i = line.find_first_not_of(' '); i < line.size(); ++i)
        if (line[i] == ' ' && line[i - 1] != ' ' &&
            (end == 0 || width_of(line.substr(0, i)) <= width))
          end = i;
      if (end == 0) break;
      out += line.substr(0, end) + "\n";
      line = indent + line.substr(line.find_first_not_of(' ', end));
    }
    out += line + "\n";
  }
  return out;
}

std::string table_text(const Table& table, std::size_t width) {
  const auto lines = lines_of(table);
  const auto widths = widths_of(lines);
  const auto shown = fitting(table, widths, width);
  std::string out = table.title.empty() ? "" : wrapped(table.title + ":", width);
  bool first = true;
  for (const auto& block : blocks(shown, widths, width)) {
    if (!std::exchange(first, false)) out += "\n";
    for (const auto& line : lines) {
      std::string text = line[0] + std::string(widths[0] - width_of(line[0]), ' ');
      for (const std::size_t i : block)
        text += std::string(kGap + widths[i] - width_of(line[i]), ' ') + line[i];
      out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
    }
  }
  std::string names;
  for (std::size_t i = 1; i < widths.size(); ++i)
    if (std::ranges::find(shown, i) == shown.end())
      names += (names.empty() ? "" : ", ") + table.columns[i].title;
  if (!names.empty()) out += wrapped("not shown in this width: " + names, width);
  return out + (table.note.empty() ? "" : wrapped(table.note, width));
}

std::string section_text(const Section& section, std::size_t width) {
  std::string out;
  for (Table table : section.tables) {
    if (table.rows.empty()) continue;
    if (out.empty() && table.title.empty()) table.title = section.title;
    out += (out.empty() ? "" : "\n") + table_text(table, width);
  }
  if (!section.maps.empty()) out += wrapped(section.title + ":", width) + heat_text(section, width);
  if (!section.note.empty()) out += wrapped(section.note, width);
  if (!out.empty() && !section.remarks.empty()) out += "\n";
  for (const auto& remark : section.remarks) out += wrapped(remark.text, width);
  return out;
}

}  // namespace penstock::report
