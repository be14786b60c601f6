// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace penstock {

struct ProgramResult {
  /// Its exit status; 127 where there is no such program, 128 and more where a signal ended it.
  int status = 0;
  std::string output;
};

/// Runs the program, which is looked for in PATH, in the folder and with LC_ALL=C. It ends with
/// this process, however that ends.
/// @param with_errors  what it writes to stderr is part of the output; else that is dropped
/// Throws Error where the system starts no more processes.
ProgramResult run_program(std::vector<std::string> arguments, const std::string& folder,
                          bool with_errors);

}  // namespace penstock
