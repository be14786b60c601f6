// The limit of open files of a process. A rank needs a connection to each other rank of each of its
// groups.
#pragma once

#include <string>

namespace penstock::dist {

/// Raises this process's limit of open files (RLIMIT_NOFILE) to the hard limit, which only an
/// administrator can raise. If the system refuses, the limit is unchanged.
void raise_open_files();

/// Whether a call failed because this process or its machine has too many open files.
/// @param error  errno after the call
bool too_many_open_files(int error);

/// A text that says which limit is reached and what to do.  REQUIRES: too_many_open_files(error).
std::string open_files_text(int error);

}  // namespace penstock::dist
