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

/// Runs the program, found through PATH, in the folder and with LC_ALL=C. The program is ended when
/// this process ends, however it ends.
/// @param with_errors  whether the output includes the program's stderr, which is else dropped
/// Throws Error if the system starts no more processes.
ProgramResult run_program(std::vector<std::string> arguments, const std::string& folder,
                          bool with_errors);

}  // namespace penstock
