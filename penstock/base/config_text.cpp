// Writes a ConfigNode as TOML text.
#include <charconv>
#include <cmath>
#include <cstdio>

#include "penstock/base/config_node.h"
#include "penstock/base/joined.h"

namespace penstock {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04X", static_cast<unsigned>(c));
      out += code;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + '"';
}

std::string key_text(const std::string& key) {
  const bool bare = !key.empty() && key.find_first_not_of(
                                        "abcdefghijklmnopqrstuvwxyz"
                                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789_-") == std::string::npos;
  return bare ? key : quoted(key);
}

std::string inline_text(const ConfigNode& node) {
  if (const auto* value = std::get_if<bool>(&node.value())) return *value ? "true" : "false";
  if (const auto* value = std::get_if<std::int64_t>(&node.value())) return std::to_string(*value);
  if (const auto* value = std::get_if<double>(&node.value())) {
    if (std::isnan(*value)) return "nan";
    if (std::isinf(*value)) return *value > 0 ? "inf" : "-inf";
    char buffer[32];  // the shortest form that reads back to the same bits
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, *value).ptr;
    std::string text(buffer, end);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  if (const auto* value = std::get_if<std::string>(&node.value())) return quoted(*value);
  if (const auto* items = std::get_if<ConfigNode::Array>(&node.value()))
    return "[" + joined(*items, ", ", inline_text) + "]";
  const auto entry = [](const auto& each) {
    return key_text(each.first) + " = " + inline_text(each.second);
  };
  return "{" + joined(node.table(), ", ", entry) + "}";
}

void write_table(const ConfigNode& node, const std::string& path, std::string& out) {
  for (const auto& [key, item] : node.table())
    if (!item.is_table() && !item.empty()) out += key_text(key) + " = " + inline_text(item) + "\n";
  for (const auto& [key, item] : node.table()) {
    if (!item.is_table()) continue;
    const std::string below = path.empty() ? key_text(key) : path + "." + key_text(key);
    if (!out.empty()) out += "\n";
    out += "[" + below + "]\n";
    write_table(item, below, out);
  }
}

}  // namespace

std::string to_toml(const ConfigNode& root) {
  std::string out;
  write_table(root, "", out);
  return out;
}

}  // namespace penstock
