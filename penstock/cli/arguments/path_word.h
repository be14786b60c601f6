// A path as a word of a command line that a user can paste into a shell.
#pragma once

#include <string>

#include "penstock/base/shell_quoted.h"

namespace penstock {

/// The path, quoted where the shell needs it. A path that begins like an option gets a folder.
inline std::string path_word(const std::string& path) {
  return shell_quoted(path.starts_with('-') ? "./" + path : path);
}

}  // namespace penstock
