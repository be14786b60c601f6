// Expands "~" in paths that no shell has expanded: values from TOML files and from --set.
#pragma once

#include <string>

namespace penstock {

/// Replaces the "~" of "~" and "~/x" by the user's home directory. Other paths are unchanged, and
/// so are all paths if the environment names no home.
std::string with_home(const std::string& path);

}  // namespace penstock
