// "~" in paths that no shell has seen: values of TOML files and of --set.
#pragma once

#include <string>

namespace penstock {

/// "~" and "~/x" with the user's home directory in place of "~"; any other text as it is, and all
/// where the environment names no home.
std::string with_home(const std::string& path);

}  // namespace penstock
