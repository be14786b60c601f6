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

/// The option's name, which apply_overrides puts into errors.
inline constexpr const char* kSetOption = "--set";

/// --set KEY=VALUE, any number of times.
inline CLI::Option* add_overrides(CLI::App& command, std::vector<std::string>& overrides,
                                  const std::string& help) {
  return command.add_option(kSetOption, overrides, help)->expected(1)->take_all();
}

/// --json: prints the result for programs.
inline CLI::Option* add_json(CLI::App& command, bool& json,
                             const std::string& help = "print one JSON object") {
  return command.add_flag("--json", json, help);
}

}  // namespace penstock
