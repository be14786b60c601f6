// Options of a command that are the fields of a config struct: declared once, in the struct's
// `visit`. Values are read and checked as a recipe's are.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/fields.h"

namespace penstock {

/// Takes what an option is given: {key: value}, with the option as its origin.
using FieldTaker = std::function<void(const ConfigNode& given)>;

/// The option of a field: "--lr-scale".
std::string flag_of(const FieldDescription& field);

/// Adds an option for each of these fields that is no table (FieldInfo::option says its name).
void add_field_options(CLI::App& command, const std::vector<FieldDescription>& fields,
                       const FieldTaker& take);

/// The same for the fields of `config`, or those alone whose keys are given. What the config is now
/// are the options' defaults; it has to live until the command line is read.
template <Configurable C>
void add_field_options(CLI::App& command, C& config,
                       std::initializer_list<std::string_view> only = {}) {
  FieldDescriber describer;
  config.visit(describer);
  std::vector<FieldDescription> fields = describer.descriptions();
  if (only.size() > 0)
    std::erase_if(fields, [&](const FieldDescription& field) {
      return std::find(only.begin(), only.end(), field.path) == only.end();
    });
  add_field_options(command, fields, [&config](const ConfigNode& given) {
    FieldReader reader(given, "options");
    config.visit(reader);
  });
}

}  // namespace penstock
