// Options that many commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "penstock/cli/arguments/whole_number.h"

namespace penstock {

/// --threads: the number of threads that compute; 0 takes the physical cores.
template <class Count>
CLI::Option* add_threads(CLI::App& command, Count& threads) {
  return command
      .add_option("--threads", threads, "number of threads; 0: the number of physical cores")
      ->check(whole_number(0, kMostThreads));
}

/// Makes the option take exactly one value each time it is given, so that a positional argument may
/// follow the value.
inline CLI::Option* one_value_each(CLI::Option* option) {
  return option->expected(1)->allow_extra_args(false)->take_all();
}

/// The option's name, which apply_overrides puts into errors.
inline constexpr const char* kSetOption = "--set";

/// --set KEY=VALUE, any number of times.
inline CLI::Option* add_overrides(CLI::App& command, std::vector<std::string>& overrides,
                                  const std::string& help) {
  return one_value_each(command.add_option(kSetOption, overrides, help));
}

/// --json: prints the result for programs.
inline CLI::Option* add_json(CLI::App& command, bool& json,
                             const std::string& help = "print one JSON object") {
  return command.add_flag("--json", json, help);
}

}  // namespace penstock
