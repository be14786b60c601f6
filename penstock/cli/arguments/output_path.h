// Where a command writes, as the command line gives it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace penstock {

/// For ->transform(): drops slashes at the end, as completion leaves them behind a folder's name,
/// and refuses an empty path.
CLI::Validator output_path();

/// Throws Error where `path` is a folder, or writing it would overwrite a file of a model
/// directory, or `input`.
void check_overwrites_no_input(const std::string& path, const std::string& input);

/// Throws Error where a file at `path` could not be written, before the work whose result it is to
/// hold: it is a folder, a device or a pipe, its folder is missing or may not be written to, or the
/// path begins with a "~" that no shell has replaced. Tries, and leaves nothing; an empty path is
/// not asked for.
void check_can_write(const std::string& path);

/// The same of a directory that is to be made, with the folders above it that are missing.
void check_can_make(const std::string& path);

}  // namespace penstock
