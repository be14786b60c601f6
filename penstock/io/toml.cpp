// Parses TOML text to ConfigNode with toml++.
#include "penstock/io/toml.h"

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <regex>
#include <string>
#include <system_error>
#include <utility>

#define TOML_EXCEPTIONS 1
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"

namespace penstock {
namespace {

/// Whether the text looks like a number, of any size.
bool meant_as_number(const std::string& text) {
  static const std::regex number(R"([+-]?[0-9][0-9_]*(\.[0-9_]*)?([eE][+-]?[0-9]+)?)");
  return std::regex_match(text, number);
}

/// Whether the text is a whole number that 64 bits do not hold.
bool overflows(std::string text) {
  std::erase(text, '_');
  const char* const end = text.data() + text.size();
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data() + text.starts_with('+'), end, value);
  return read.ptr == end && read.ec == std::errc::result_out_of_range;
}

/// @param origin_of  gives the origin of a node
/// @param file  the file that holds the text; "": no file
template <class OriginOf>
ConfigNode convert(const toml::node& node, const OriginOf& origin_of, const std::string& file) {
  const std::string origin = origin_of(node);
  const auto made = [&](ConfigNode::Value value) {
    return ConfigNode(std::move(value), origin, file);
  };
  if (const auto* table = node.as_table()) {
    ConfigNode::Table entries;
    for (const auto& [key, value] : *table)
      entries.emplace(std::string(key.str()), convert(value, origin_of, file));
    return made(std::move(entries));
  }
  if (const auto* array = node.as_array()) {
    ConfigNode::Array items;
    for (const auto& item : *array) items.push_back(convert(item, origin_of, file));
    return made(std::move(items));
  }
  if (const auto* value = node.as_boolean()) return made(value->get());
  if (const auto* value = node.as_integer()) return made(value->get());
  if (const auto* value = node.as_floating_point()) return made(value->get());
  if (const auto* value = node.as_string()) return made(value->get());
  fail(origin, ": dates and times have no meaning in a recipe");
}

}  // namespace

ConfigNode parse_toml(const std::string& text, const std::string& name) {
  try {
    const auto line_of = [&](const toml::node& node) {
      return concat(name, ":", node.source().begin.line);
    };
    return convert(toml::parse(text, name), line_of, name);
  } catch (const toml::parse_error& error) {
    fail(name, ":", error.source().begin.line, ": ", error.description());
  }
}

ConfigNode read_toml(const std::string& path) {
  PENSTOCK_CHECK(!std::filesystem::is_directory(path), path, ": is a folder; give a TOML file");
  PENSTOCK_CHECK(std::filesystem::exists(path), path, ": cannot be opened; check the path");
  constexpr std::uint64_t most = 1 << 24;  // a recipe has a few kB; /dev/zero never ends
  return parse_toml(real_file_system().read(path, most), path);
}

void apply_overrides(ConfigNode& root, std::span<const std::string> overrides,
                     const std::string& option) {
  const std::string before = option.empty() ? "" : option + " ";
  for (const auto& override_text : overrides) {
    const std::string origin = before + override_text;
    const auto equals = override_text.find('=');
    // A key never begins with "-". In "--set --set a=1" the option is there twice.
    PENSTOCK_CHECK(equals != std::string::npos && equals > 0 && override_text[0] != '-', before,
                   "'", override_text, "': write it as key=value, for example ", before,
                   "train.steps=100");
    const std::string key = override_text.substr(0, equals);
    const std::string text = override_text.substr(equals + 1);
    ConfigNode value(text, origin);
    const auto whole = [&](const toml::node&) { return origin; };
    try {  // the value is TOML if it parses as TOML, otherwise a plain string
      const auto parsed = toml::parse("v = " + text);
      if (parsed.size() == 1) value = convert(*parsed.get("v"), whole, "");
    } catch (const toml::parse_error& error) {
      using Limits = std::numeric_limits<std::int64_t>;
      PENSTOCK_CHECK(!overflows(text), origin, ": whole numbers have 64 bits, from ", Limits::min(),
                     " to ", Limits::max());
      PENSTOCK_CHECK(!meant_as_number(text), origin, ": ", error.description());
    }
    root.set(key, std::move(value));
  }
}

}  // namespace penstock
