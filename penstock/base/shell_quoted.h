// Quotes words of a command line that a user can paste into a shell.
#pragma once

#include <string>

namespace penstock {

/// The word unchanged if the shell would read it literally, otherwise in single quotes.
std::string shell_quoted(const std::string& word);

}  // namespace penstock
