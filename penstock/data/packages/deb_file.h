// Reads the files in a Debian package without unpacking or installing it (deb(5): an ar archive
// that contains a tar archive).
#pragma once

#include <functional>
#include <string>

namespace penstock {

/// Calls visit(name, content) for each regular file of the package at `path` that `wanted` accepts,
/// in the package's order. A name is a path without leading "/" and without compression suffix; the
/// content is unpacked.
/// @param inner  if not empty, an fnmatch() pattern of archives in the package (.tar, compressed or
///   not, or .zip); their members are visited instead of the package's
/// Throws Error with the file's name if it is not a package, is damaged or is truncated. Memory:
/// one member.
void read_deb(const std::string& path, const std::string& inner,
              const std::function<bool(const std::string& name)>& wanted,
              const std::function<void(const std::string& name, std::string content)>& visit);

/// Whether the whole of `text` matches the fnmatch() pattern; '*' matches slashes too.
bool fits_pattern(const std::string& text, const std::string& pattern);

}  // namespace penstock
