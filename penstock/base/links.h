// Follows symbolic links. It asks the system itself, not a FileSystem, which tests replace.
#pragma once

#include <filesystem>

namespace penstock {

/// The real location of `path`: `path` itself, or its final target if it is a symbolic link. Links
/// to links are followed, and the target need not exist. Links among the parent folders are not
/// resolved. A trailing slash is removed.
/// Throws Error if the links form a cycle.
std::filesystem::path followed(const std::filesystem::path& path);

}  // namespace penstock
