#include "penstock/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace penstock::report {

using namespace study;

std::string escape(std::string_view text) {
  static const std::map<char, std::string> names{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string out;
  for (const char c : text) {
    const auto name = names.find(c);
    out += name == names.end() ? std::string(1, c) : name->second;
  }
  return out;
}

std::string script_json(const nlohmann::json& value) {
  std::string out;
  const auto replace = nlohmann::json::error_handler_t::replace;  // labels may hold invalid UTF-8
  for (const char c : value.dump(-1, ' ', false, replace)) {
    out += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return out;
}

std::string table_html(const Table& table) {
  const std::string look = table.look.empty() ? "" : " class=\"" + table.look + "\"";
  std::string out = "<div class=\"scroll\"><table" + look + "><tr>";
  for (const auto& column : table.columns) {
    const std::string title = (column.variant ? dot(*column.variant) : "") + escape(column.title);
    const std::string more =
        column.explanation.empty() ? "" : " title=\"" + escape(column.explanation) + "\"";
    out += title.empty() ? "<td></td>" : "<th scope=\"col\"" + more + ">" + title + "</th>";
  }
  out += "</tr>";
  for (const auto& row : table.rows) {
    out += row.beneath ? "<tr class=\"paper\">" : "<tr>";
    for (const auto& cell : row.cells)
      out += (cell.best ? "<td class=\"best\">" : "<td>") +
             (row.variant && &cell == &row.cells.front() ? dot(*row.variant) : "") +
             escape(cell.text) +
             (cell.more.empty() ? "" : " <span class=\"sd\">" + escape(cell.more) + "</span>") +
             "</td>";
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string heading(const std::string& title, const std::string& claim, const Facts& facts) {
  std::string out = "<h1>" + escape(title) + "</h1>";
  if (!claim.empty()) out += "<p class=\"claim\">" + escape(claim) + "</p>";
  out += "<dl class=\"facts\">";
  for (const auto& [name, value] : facts)
    if (!value.empty())
      out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
  return out + "</dl>";
}

std::string dot(std::size_t variant) {
  return fmt::format("<span class=\"dot\" style=\"--color:var(--c{})\"></span>", variant % 8);
}

std::string heat_map(const HeatMap& map) {
  std::size_t longest = 0;
  for (const auto& row : map.rows) longest = std::max(longest, row.name.size());
  // There is no room for the texts of many columns. Screen readers still read them.
  const bool crowded = map.columns.size() > 16;
  std::string out = fmt::format(
      "<div class=\"scroll\"><table class=\"heat{}\" style=\"--names:{}px\"><tr><td></td>",
      crowded ? " crowded" : "", std::clamp<std::size_t>(longest * 8 + 12, 40, 180));
  const auto text = [](const std::string& said, bool seen) {
    return seen ? escape(said) : "<span class=\"unseen\">" + escape(said) + "</span>";
  };
  for (std::size_t i = 0; i < map.columns.size(); ++i)
    out += "<th scope=\"col\">" + text(map.columns[i], !crowded || i % 8 == 0) + "</th>";
  out += "</tr>";
  std::string group;
  for (const auto& row : map.rows) {
    if (row.group != group) {
      group = row.group;
      out += fmt::format("<tr><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>",
                         map.columns.size() + 1, escape(group));
    }
    out += "<tr><th scope=\"row\" title=\"" + escape(row.name) + "\">" + escape(row.name) + "</th>";
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      const double share = map.max > 0 ? std::clamp(row.values[i] / map.max, 0.0, 1.0) : 0.0;
      const std::string number = fmt::format("{:.{}f}", row.values[i] * map.scale, map.digits);
      const std::string column = map.column(i);
      out += fmt::format(
          "<td{} style=\"--v:{:.3f}\" title=\"{}\">{}</td>", share > 0.62 ? " class=\"high\"" : "",
          share,
          escape(fmt::format("{}{}, {}: {:.{}f}{}", group.empty() ? "" : group + ", ", row.name,
                             column, row.values[i] * map.scale, map.digits + 1, map.unit)),
          text(number, !crowded));
    }
    out += "</tr>";
  }
  return out + "</table></div>";
}

namespace {

std::string note_html(const std::string& text) {
  return text.empty() ? "" : "<p class=\"note\">" + escape(text) + "</p>";
}

/// Remarks with Tone::detail are folded.
std::string remarks_html(const std::vector<Remark>& remarks) {
  std::string said, details;
  for (const auto& [text, tone] : remarks)
    (tone == Tone::detail ? details : said) +=
        (tone == Tone::warning ? "<p class=\"warning\">" : "<p>") + escape(text) + "</p>";
  if (details.empty()) return said;
  return said + "<details><summary>More</summary>" + details + "</details>";
}

std::string chart_card(const Chart& chart) {
  return fmt::format(
      "<figure class=\"card\"><h3>{0}</h3><div class=\"chart\"><canvas id=\"{1}\" role=\"img\" "
      "aria-label=\"{0}\"></canvas></div><figcaption>{2}</figcaption></figure>",
      escape(chart.title), escape(chart.drawn["id"].get<std::string>()), escape(chart.caption));
}

/// The table with its title and note; "" for a table without rows.
std::string titled_table(const Table& table) {
  if (table.rows.empty()) return "";
  const std::string title = escape(table.title), body = table_html(table) + note_html(table.note);
  if (table.folded) return "<details><summary>" + title + "</summary>" + body + "</details>";
  return (title.empty() ? "" : "<h3>" + title + "</h3>") + body;
}

/// The maps in a grid, with three columns for small maps, and the legend of their colours.
std::string maps_html(const std::vector<NamedMap>& maps) {
  std::string out;
  double max = 0;
  std::size_t columns = 0;
  for (const auto& one : maps) {
    out += "<figure class=\"card\">";
    if (!one.name.empty())
      out += "<h3>" + (one.variant ? dot(*one.variant) : "") + escape(one.name) + "</h3>";
    out += heat_map(one.map) + "<figcaption>" + escape(one.caption) + "</figcaption></figure>";
    max = std::max(max, one.map.max);
    columns = std::max(columns, one.map.columns.size());
  }
  if (maps.empty()) return "";
  const auto bound = [&map = maps.front().map](double value) {
    return fmt::format("{:.{}f}{}", value * map.scale, map.digits, escape(map.unit));
  };
  return fmt::format("<div class=\"grid{}\">{}</div>", columns <= 8 ? " thirds" : "", out) +
         fmt::format("<div class=\"scale\"><span>{}</span><i></i><span>{}</span></div>", bound(0),
                     bound(max));
}

}  // namespace

std::string section_html(const Section& section, const std::string& under) {
  std::string charts, tables;
  for (const auto& chart : section.charts) charts += chart_card(chart);
  for (const auto& table : section.tables) tables += titled_table(table);
  std::string out = under + remarks_html(section.remarks);
  if (!charts.empty()) out += "<div class=\"grid\">" + charts + "</div>";
  if (!tables.empty()) out += "<div class=\"card\">" + tables + "</div>";
  out += maps_html(section.maps);
  return out.empty() ? ""
                     : "<h2>" + escape(section.title) + "</h2>" + out + note_html(section.note);
}

}  // namespace penstock::report
