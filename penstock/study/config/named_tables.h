// Helpers for the tables of a study's file: checks of names, the file's order, numbers, and tables
// that override a recipe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"

namespace penstock::study {

/// Throws Error, which begins with `where`, for a name that cannot be the name of a folder.
void check_name(const std::string& name, const std::string& where);

/// Throws Error, which begins with `where` and names the nearest variant, for a name that is not
/// among the study's variants.
void check_is_variant(const std::string& name, const std::vector<std::string>& variants,
                      const std::string& where);

/// The names of the tables below a node, in the file's order (the parser sorts a table's keys);
/// none for an empty node. Throws Error for an entry that is not a table.
std::vector<std::string> names_in_order(const ConfigNode& node, const std::string& below);

/// A table of numbers by name; none for an empty node. Throws Error for other values.
std::map<std::string, double> read_numbers(const ConfigNode& node, const std::string& below);

/// Overrides the recipe with `over`, which may be empty. It accepts set = {"model.d_model" = 64}
/// and [set.model] d_model = 64.
void lay_over(ConfigNode& recipe, const ConfigNode& over, const std::string& prefix = "");

}  // namespace penstock::study
