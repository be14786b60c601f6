#include "penstock/study/shown_table.h"

#include "penstock/study/html.h"
#include "penstock/study/json_field.h"
#include "penstock/study/text_table.h"

namespace penstock::study {

std::string table_text(const ShownTable& table) {
  return table.title + ":\n" + aligned(table.lines) + (table.note.empty() ? "" : table.note + "\n");
}

std::string table_html(const ShownTable& table) {
  return "<h2>" + escape(table.title) + "</h2><div class=\"card\">" + cell_table(table.lines) +
         "</div>" + (table.note.empty() ? "" : "<p class=\"note\">" + escape(table.note) + "</p>");
}

nlohmann::json to_json(const ShownTable& table) {
  return {{"title", table.title}, {"note", table.note}, {"lines", table.lines}};
}

ShownTable shown_table_from_json(const nlohmann::json& object, const std::string& where) {
  PENSTOCK_CHECK(object.is_object(), where, ": a table is not an object");
  ShownTable out{.title = string_or(object, "title", "", where),
                 .note = string_or(object, "note", "", where)};
  const auto lines = object.find("lines");
  PENSTOCK_CHECK(lines != object.end() && lines->is_array() && !lines->empty(), where,
                 ": a table has no lines");
  for (const auto& line : *lines) {
    PENSTOCK_CHECK(line.is_array() && !line.empty() && line.size() == lines->front().size(), where,
                   ": lines of a table are not equally long");
    auto& cells = out.lines.emplace_back();
    for (const auto& cell : line) {
      PENSTOCK_CHECK(cell.is_string(), where, ": a table's cell is not text");
      cells.push_back(cell.get<std::string>());
    }
  }
  return out;
}

}  // namespace penstock::study
