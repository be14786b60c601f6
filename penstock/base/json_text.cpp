#include "penstock/base/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using nlohmann::json;

template <class Json>
std::string dumped(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

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

std::string json_text(const json& value, int indent) { return dumped(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return dumped(value, indent);
}

std::string readable_text(const json& value) {
  std::string text;
  append(value, 0, text);
  return text + "\n";
}

}  // namespace penstock
