// Converts ConfigNode to and from JSON, for config.json and --json output.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/base/config_node.h"

namespace penstock {

/// The largest depth of tables and arrays in an untrusted config. It limits the recursion of code
/// that reads a config.
inline constexpr int kMostLevels = 200;

/// The tree as JSON, without origins. Empty nodes are left out of tables; elsewhere they are nulls.
nlohmann::json to_json(const ConfigNode& node);
/// The JSON value as a tree; `origin` stands for the document in errors. Nulls become empty nodes.
/// Whole numbers that do not fit into std::int64_t become doubles. (The name `from_json` would
/// collide with nlohmann's own if `origin` is a literal.)
ConfigNode config_from_json(const nlohmann::json& value, const std::string& origin);
/// Parses a JSON file. Throws Error with the file's name and the byte for a syntax error, and for a
/// file that is nested too deeply or is too large for a config.
nlohmann::json read_json(const std::string& path);

}  // namespace penstock
