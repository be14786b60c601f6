// The error of a command that must run in one process, when a launcher starts it several times.
#pragma once

#include <string>

namespace penstock {

/// Throws Error if the environment says that this is one of several processes. Each process would
/// do all of the command's work and write to the same folder.
void check_one_process(const std::string& command);

}  // namespace penstock
