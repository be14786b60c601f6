// Words of a command line that a person may paste into a shell.
#pragma once

#include <string>

namespace penstock {

/// The word as it is where the shell takes it so, otherwise in single quotes.
std::string shell_quoted(const std::string& word);

}  // namespace penstock
