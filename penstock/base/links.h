// Where symbolic links lead. The system is asked, and not a FileSystem, which tests replace.
#pragma once

#include <filesystem>

namespace penstock {

/// The place that a file or folder called `path` has: `path`, or where it is a symbolic link, what
/// that leads to, through further links, whether something is there or not. Links among the folders
/// above it stay as they are, and a slash behind it goes.
/// Throws Error where links lead in a circle.
std::filesystem::path followed(const std::filesystem::path& path);

}  // namespace penstock
