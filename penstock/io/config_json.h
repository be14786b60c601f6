// ConfigNode to and from JSON, for config.json and --json output.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/base/config_node.h"

namespace penstock {

/// The most levels of tables and arrays in a config from outside. Code that reads a config calls
/// itself for each level.
inline constexpr int kMostLevels = 200;

/// The tree as JSON, without origins. Empty nodes are left out of tables, and are nulls elsewhere.
nlohmann::json to_json(const ConfigNode& node);
/// `origin` stands for the document in errors. Nulls become empty nodes. Whole numbers that
/// std::int64_t does not hold become doubles. A plain `from_json` would compete with nlohmann's own
/// where `origin` is a literal.
ConfigNode config_from_json(const nlohmann::json& value, const std::string& origin);
/// Parses a JSON file. Throws Error naming the file and byte on a syntax error, or when its nesting
/// or size is beyond what a config has.
nlohmann::json read_json(const std::string& path);

}  // namespace penstock
