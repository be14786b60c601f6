#include "penstock/tasks/template.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/parse_number.h"

namespace penstock::tasks {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Splits the text at separators outside quotes and parentheses.
std::vector<std::string_view> split_outside_quotes(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  char quote = 0;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    } else if (c == separator && depth == 0) {
      out.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  out.push_back(trimmed(text.substr(begin)));
  return out;
}

bool is_place(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
}

FilterArgument argument(std::string_view text, const std::string& origin) {
  PENSTOCK_CHECK(!text.empty(), origin, ": an argument is empty; quote a text: ''");
  if (text.front() == '\'' || text.front() == '"') {
    PENSTOCK_CHECK(text.size() >= 2 && text.back() == text.front(), origin, ": the text ", text,
                   " is not closed");
    return {.value = std::string(text.substr(1, text.size() - 2))};
  }
  if (const auto number = parse_number<std::int64_t>(text)) return {.value = *number};
  return {.path = split_path(text)};
}

FilterCall filter_call(std::string_view text, const std::string& origin) {
  FilterCall out;
  const std::size_t open = text.find('(');
  try {
    out.filter = &find_filter(trimmed(text.substr(0, open)));
  } catch (const Error& error) {
    fail(origin, ": ", error.what());
  }
  if (open != text.npos) {
    PENSTOCK_CHECK(text.ends_with(')'), origin, ": '", text, "' lacks its closing ')'");
    const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
    if (!trimmed(inside).empty())
      for (const std::string_view one : split_outside_quotes(inside, ','))
        out.arguments.push_back(argument(one, origin));
  }
  PENSTOCK_CHECK(
      out.arguments.size() >= out.filter->least && out.arguments.size() <= out.filter->most, origin,
      ": the filter '", out.filter->name, "' has ", out.arguments.size(),
      " arguments: ", out.filter->help);
  return out;
}

Row one_step(const Row& value, const std::string& key) {
  if (value.is_object()) {
    const auto found = value.find(key);
    PENSTOCK_CHECK(found != value.end(), "there is no field '", key,
                   "'; there are: ", field_names(value));
    return *found;
  }
  PENSTOCK_CHECK(value.is_array(), "'", key,
                 "' is sought in a value that is no table: ", value.dump().substr(0, 60));
  if (is_place(key)) {
    const std::size_t place = std::stoul(key.substr(0, 9));
    PENSTOCK_CHECK(place < value.size(), "place ", place, " of a list of ", value.size());
    return value[place];
  }
  Row out = Row::array();
  for (const Row& item : value) out.push_back(one_step(item, key));
  return out;
}

std::string as_text(const Row& value) {
  if (value.is_string()) return value.get<std::string>();
  PENSTOCK_CHECK(value.is_number_integer(), "a text is wanted, and the value is ",
                 value.dump().substr(0, 60));
  return value.dump();
}

}  // namespace

std::string field_names(const Row& row) {
  return joined(row.items(), ", ", [](const auto& field) { return field.key(); });
}

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> out;
  for (;;) {
    const std::size_t dot = text.find('.');
    out.emplace_back(text.substr(0, dot));
    if (dot == text.npos) return out;
    text.remove_prefix(dot + 1);
  }
}

Row at_path(const Row& row, const std::vector<std::string>& path) {
  Row out = row;
  for (const std::string& key : path) out = one_step(out, key);
  return out;
}

Template::Template(const std::string& text, std::string origin)
    : origin_(std::move(origin)), given_(true) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t open = rest.find("{{");
    if (open != 0) {
      parts_.push_back({.literal = std::string(rest.substr(0, open))});
      if (open == rest.npos) return;
    }
    const std::size_t close = rest.find("}}", open + 2);
    PENSTOCK_CHECK(close != rest.npos, origin_, ": '{{' is not closed by '}}'");
    parts_.push_back(expression(rest.substr(open + 2, close - open - 2)));
    rest.remove_prefix(close + 2);
  }
}

Template::Part Template::expression(std::string_view text) const {
  Part out;
  const auto pieces = split_outside_quotes(text, '|');
  const std::string_view path = pieces.front();
  PENSTOCK_CHECK(!path.empty() && path.find_first_of(" '\"()") == path.npos, origin_, ": '{{", text,
                 "}}' does not begin with a field, as {{question | strip}} does");
  out.path = split_path(path);
  for (std::size_t i = 1; i < pieces.size(); ++i)
    out.filters.push_back(filter_call(pieces[i], origin_));
  return out;
}

Row Template::evaluate(const Part& part, const Row& row) const {
  if (part.path.empty()) return part.literal;
  Row out = at_path(row, part.path);
  for (const FilterCall& call : part.filters) {
    std::vector<Row> arguments;
    for (const FilterArgument& one : call.arguments)
      arguments.push_back(one.path.empty() ? one.value : at_path(row, one.path));
    out = apply_filter(*call.filter, out, arguments);
  }
  return out;
}

std::string Template::text(const Row& row) const {
  try {
    std::string out;
    for (const Part& part : parts_) out += as_text(evaluate(part, row));
    return out;
  } catch (const Error& error) {
    fail(origin_, ": ", error.what());
  }
}

Row Template::value(const Row& row) const {
  if (parts_.size() != 1) return text(row);
  try {
    return evaluate(parts_.front(), row);
  } catch (const Error& error) {
    fail(origin_, ": ", error.what());
  }
}

}  // namespace penstock::tasks
