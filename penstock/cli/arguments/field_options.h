// Options of a command that are the fields of a config struct. The struct's `visit` declares them
// once. Values are read and checked as a recipe's values are.
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

/// Takes an option's value as {key: value}; the node's origin is the option.
using FieldTaker = std::function<void(const ConfigNode& given)>;

/// The option of a field: "--lr-scale".
std::string flag_of(const FieldDescription& field);

/// Adds an option for each of the fields that is not a table. FieldInfo::option names the option.
void add_field_options(CLI::App& command, const std::vector<FieldDescription>& fields,
                       const FieldTaker& take);

/// Adds options for the fields of `config`, or only for the keys in `only`. The config's present
/// values are the options' defaults. The config must live until the command line is parsed.
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
