// Converts the library's error messages to the words of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace penstock {

/// Returns `message` in the words of the command line. The library names a member of an options
/// struct `options.member`. Each such name becomes the member's flag, if the command that `app` has
/// parsed has that flag: `--member`, or the words of FieldInfo (`--lr-scale match`). If the message
/// names a path of the command line that begins with "~" and does not exist, the text adds what to
/// write instead of "~". If it names a missing recipe in recipes/, the text adds where Penstock's
/// recipes are.
/// @param words  the command line
std::string error_text(const std::string& message, const CLI::App& app,
                       std::span<const char* const> words);

}  // namespace penstock
