// What a command that no ranks can share says where a launcher starts it several times.
#pragma once

#include <string>

namespace penstock {

/// Throws Error where the environment says that this is one of several processes: each would do all
/// of the command's work, into the same folder.
void check_one_process(const std::string& command);

}  // namespace penstock
