#include "penstock/io/config_json.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/json_error.h"

namespace penstock {
namespace {

constexpr std::size_t max_bytes = std::size_t{256} << 20;

bool is_above_int64(const nlohmann::json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
}

}  // namespace

nlohmann::json to_json(const ConfigNode& node) {
  return std::visit(
      [](const auto& value) -> nlohmann::json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, ConfigNode::Array>) {
          nlohmann::json out = nlohmann::json::array();
          for (const auto& item : value) out.push_back(to_json(item));
          return out;
        } else if constexpr (std::is_same_v<T, ConfigNode::Table>) {
          nlohmann::json out = nlohmann::json::object();
          for (const auto& [key, item] : value)
            if (!item.empty()) out[key] = to_json(item);
          return out;
        } else {
          return value;
        }
      },
      node.value());
}

ConfigNode config_from_json(const nlohmann::json& value, const std::string& origin) {
  if (value.is_boolean()) return ConfigNode(value.get<bool>(), origin);
  // A number that std::int64_t does not hold becomes a double. JSON's reader, too, makes a double
  // of a number that std::uint64_t does not hold.
  if (value.is_number_integer() && !is_above_int64(value))
    return ConfigNode(value.get<std::int64_t>(), origin);
  if (value.is_number()) return ConfigNode(value.get<double>(), origin);
  if (value.is_string()) return ConfigNode(value.get<std::string>(), origin);
  if (value.is_array()) {
    ConfigNode::Array items;
    for (const auto& item : value) items.push_back(config_from_json(item, origin));
    return ConfigNode(std::move(items), origin);
  }
  if (value.is_object()) {
    ConfigNode::Table entries;
    for (const auto& [key, item] : value.items())
      entries.emplace(key, config_from_json(item, origin));
    return ConfigNode(std::move(entries), origin);
  }
  return ConfigNode(std::monostate{}, origin);
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path, ": cannot be opened; check the path");
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    PENSTOCK_CHECK(text.size() <= max_bytes, path, ": larger than ", max_bytes,
                   " bytes; not a config");
  }
  try {
    return nlohmann::json::parse(text, [&](int depth, nlohmann::json::parse_event_t,
                                           nlohmann::json&) {
      PENSTOCK_CHECK(depth <= kMostLevels, path, ": nested deeper than ", kMostLevels, " levels");
      return true;
    });
  } catch (const nlohmann::json::exception& error) {
    fail(path, ": not valid JSON; ", json_error_text(error));
  }
}

}  // namespace penstock
