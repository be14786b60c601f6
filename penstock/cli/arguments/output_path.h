// Checks of the paths that a command writes to.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace penstock {

/// For ->transform(). Drops slashes at the end, which a shell's completion adds to a folder's name.
/// Refuses an empty path.
CLI::Validator output_path();

/// The same for a path that is not from the command line. Throws Error that begins with `name`.
std::string output_path(std::string path, const std::string& name);

/// Throws Error if `path` is a folder, or if a write to `path` would overwrite `input` or a file of
/// a model directory.
void check_overwrites_no_input(const std::string& path, const std::string& input);

/// Throws Error if a file at `path` cannot be written; call it before the work whose result the
/// file will hold. The path is wrong if it is a folder, a device or a pipe, if its folder is
/// missing or not writable, or if it begins with a "~" that no shell has replaced. The check writes
/// a temporary file and removes it. An empty path is not checked.
void check_can_write(const std::string& path);

/// The same check for a directory that will be made, together with its missing parent folders.
void check_can_make(const std::string& path);

}  // namespace penstock
