// An option whose value is a word of an enum, which lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "penstock/base/fields.h"

namespace penstock {

/// @param value  an enum that lists its words, or an optional enum. Without the option, it keeps
///               its present value.
template <class Value>
CLI::Option* add_word_option(CLI::App& command, const std::string& name, Value& value,
                             const std::string& help) {
  std::vector<std::string> known;
  if constexpr (Worded<Value>)
    for (const std::string_view each : words(value)) known.emplace_back(each);
  else
    for (const std::string_view each : words(typename Value::value_type()))
      known.emplace_back(each);
  return command
      .add_option_function<std::string>(
          name,
          [&value](const std::string& text) {
            if constexpr (Worded<Value>)
              value = *of_word<Value>(text);
            else
              value = of_word<typename Value::value_type>(text);
          },
          help)
      ->check(CLI::IsMember(known));
}

}  // namespace penstock
