// Runs another program to its end.
#pragma once

#include <string>
#include <vector>

namespace penstock {

struct ProgramResult {
  /// The exit status; 127 if there is no such program, 128 or more if a signal ended it.
  int status = 0;
  std::string output;
};

/// Runs the program, found through PATH, in the folder and with LC_ALL=C. If this process ends in
/// any way, the system ends the program too.
/// @param with_errors  whether the output includes the program's stderr; otherwise it is dropped
/// Throws Error if the system cannot start a process.
ProgramResult run_program(std::vector<std::string> arguments, const std::string& folder,
                          bool with_errors);

}  // namespace penstock
