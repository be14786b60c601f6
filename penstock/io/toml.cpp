// TOML text to ConfigNode, through toml++.
#include "penstock/io/toml.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#define TOML_EXCEPTIONS 1
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

ConfigNode convert(const toml::node& node, const std::string& name) {
  const std::string origin = concat(name, ":", node.source().begin.line);
  if (const auto* table = node.as_table()) {
    ConfigNode::Table entries;
    for (const auto& [key, value] : *table)
      entries.emplace(std::string(key.str()), convert(value, name));
    return ConfigNode(std::move(entries), origin);
  }
  if (const auto* array = node.as_array()) {
    ConfigNode::Array items;
    for (const auto& item : *array) items.push_back(convert(item, name));
    return ConfigNode(std::move(items), origin);
  }
  if (const auto* value = node.as_boolean()) return ConfigNode(value->get(), origin);
  if (const auto* value = node.as_integer()) return ConfigNode(value->get(), origin);
  if (const auto* value = node.as_floating_point()) return ConfigNode(value->get(), origin);
  if (const auto* value = node.as_string()) return ConfigNode(value->get(), origin);
  fail(origin, ": dates and times have no meaning in a recipe");
}

}  // namespace

ConfigNode parse_toml(const std::string& text, const std::string& name) {
  try {
    return convert(toml::parse(text, name), name);
  } catch (const toml::parse_error& error) {
    fail(name, ":", error.source().begin.line, ": ", error.description());
  }
}

ConfigNode read_toml(const std::string& path) {
  PENSTOCK_CHECK(!std::filesystem::is_directory(path), path, ": is a folder; give a TOML file");
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path, ": cannot be opened; check the path");
  std::stringstream text;
  text << in.rdbuf();
  return parse_toml(text.str(), path);
}

void apply_overrides(ConfigNode& root, std::span<const std::string> overrides) {
  for (const auto& override_text : overrides) {
    const std::string origin = "--set " + override_text;
    const auto equals = override_text.find('=');
    PENSTOCK_CHECK(equals != std::string::npos && equals > 0, origin,
                   ": write it as key=value, for example --set train.steps=100");
    const std::string key = override_text.substr(0, equals);
    const std::string text = override_text.substr(equals + 1);
    ConfigNode value(text, origin);
    try {  // a TOML value where it parses as one, otherwise the bare string
      const auto parsed = toml::parse("v = " + text);
      if (parsed.size() == 1) value = ConfigNode(convert(*parsed.get("v"), origin).value(), origin);
    } catch (const toml::parse_error&) {
    }
    root.set(key, std::move(value));
  }
}

}  // namespace penstock
