// Options of a command that are the fields of a config struct: declared once, in the struct's
// `visit`. Values are read and checked as a recipe's are.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "penstock/base/fields.h"

namespace penstock {

/// Adds an option for each of these fields that is no table (FieldInfo::option says its name).
/// @return what is given of them, by key, with the option as its origin; filled when the command
///         line is read
std::shared_ptr<ConfigNode> add_field_options(CLI::App& command,
                                              const std::vector<FieldDescription>& fields);

}  // namespace penstock
