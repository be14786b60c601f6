// Escaping and coloured cells.
#include "penstock/study/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::study {

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(const nlohmann::json& value) {
  std::string out;
  const auto replace = nlohmann::json::error_handler_t::replace;  // labels may hold broken UTF-8
  for (const char c : value.dump(-1, ' ', false, replace)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string cell_table(const std::vector<std::vector<std::string>>& lines) {
  std::string out = "<div class=\"scroll\"><table>";
  for (const auto& line : lines) {
    const char* const cell = &line == &lines.front() ? "th" : "td";
    out += line[0] == "  paper" ? "<tr class=\"paper\">" : "<tr>";
    for (const auto& text : line)
      out += std::string("<") + cell + ">" + escape(text) + "</" + cell + ">";
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string fact(const std::string& name, const std::string& value) {
  return value.empty()
             ? ""
             : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
}

std::string dot(std::size_t variant) {
  return fmt::format("<span class=\"dot\" style=\"--color:var(--c{})\"></span>", variant % 8);
}

std::string heat_map(const HeatMap& map) {
  std::size_t longest = 0;
  for (const auto& row : map.rows) longest = std::max(longest, row.name.size());
  std::string out = fmt::format(
      "<div class=\"scroll\"><table class=\"heat\" style=\"--names:{}px\"><tr><th></th>",
      std::clamp<std::size_t>(longest * 8 + 12, 40, 180));
  const bool crowded = map.columns.size() > 16;
  for (std::size_t i = 0; i < map.columns.size(); ++i)
    out += "<th scope=\"col\">" + (crowded && i % 8 != 0 ? "" : escape(map.columns[i])) + "</th>";
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
      const std::string column = i < map.columns.size() ? map.columns[i] : fmt::to_string(i);
      out += fmt::format(
          "<td{} style=\"--v:{:.3f}\" title=\"{}\">{}</td>", share > 0.62 ? " class=\"high\"" : "",
          share,
          escape(fmt::format("{}{}, {}: {:.{}f}{}", group.empty() ? "" : group + ", ", row.name,
                             column, row.values[i] * map.scale, map.digits + 1, map.unit)),
          crowded ? "" : number);
    }
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string heat_scale(double max, const std::string& low, const std::string& high) {
  return max > 0 ? fmt::format("<div class=\"scale\"><span>{}</span><i></i><span>{}</span></div>",
                               escape(low), escape(high))
                 : "";
}

}  // namespace penstock::study
