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

}  // namespace penstock
