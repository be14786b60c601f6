// Helpers of reading a study's tables: names, order, numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"

namespace penstock::study {

/// Throws Error for a name that is unfit for a folder; `where` stands before it.
void check_name(const std::string& name, const std::string& where);

/// Throws Error, with the nearest of `allowed`, for a table that is none of them.
void refuse_other_tables(const std::map<std::string, ConfigNode>& tables,
                         const std::vector<std::string>& allowed, const std::string& below);

/// The names of the tables below a node, in the file's order (a table's keys come sorted). Throws
/// Error for one that is no table.
std::vector<std::string> names_in_order(const ConfigNode& node, const std::string& below);

/// A table of numbers by name. Throws Error for other values.
std::map<std::string, double> read_numbers(const ConfigNode& node, const std::string& below);

/// Lays `over` above the recipe: both set = {"model.d_model" = 64} and [set.model] d_model = 64.
void lay_over(ConfigNode& recipe, const ConfigNode& over, const std::string& prefix = "");

}  // namespace penstock::study
