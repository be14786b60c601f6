// Reads recipes (TOML files and command-line overrides) into ConfigNode.
#pragma once

#include <span>
#include <string>

#include "penstock/base/config_node.h"

namespace penstock {

/// Reads a TOML file. Throws Error with file and line for a syntax error.
ConfigNode read_toml(const std::string& path);
/// Parses TOML text; `name` stands for the file in errors.
ConfigNode parse_toml(const std::string& text, const std::string& name);
/// Applies `a.b=c` overrides; c is a TOML value, or else a string without quotes.
/// @param option  the option that gave the overrides, for errors, such as "--set"; "": none
void apply_overrides(ConfigNode& root, std::span<const std::string> overrides,
                     const std::string& option = {});

}  // namespace penstock
