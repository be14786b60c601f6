#include "penstock/io/readable_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penstock/base/json_text.h"

namespace penstock {
namespace {

using nlohmann::json;

bool one_line(const json& value) {
  return value.empty() || !value.is_structured() ||
         (value.is_array() && std::ranges::none_of(value, &json::is_structured));
}

void append(const json& value, std::size_t depth, std::string& text) {
  if (one_line(value)) {
    text += json_text(value);
    return;
  }
  const std::string indent = "\n" + std::string(depth + 1, ' ');
  text += value.is_object() ? '{' : '[';
  const char* separator = "";
  for (auto it = value.begin(); it != value.end(); ++it) {
    text += separator + indent;
    if (value.is_object()) text += json_text(json(it.key())) + ": ";
    append(*it, depth + 1, text);
    separator = ",";
  }
  text += indent.substr(0, depth + 1);
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string readable_text(const json& value) {
  std::string text;
  append(value, 0, text);
  return text + "\n";
}

}  // namespace penstock
