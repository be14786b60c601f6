// What the program says of an error: the library's sentence in the words of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace penstock {

/// `message` with each `options.member`, as the library names the member of an options struct,
/// written as the flag for it (`--member`, or as FieldInfo says: `--lr-scale match`) where the
/// command that `app` has parsed has one. Where it names a path of the command line that begins
/// with a "~" and is not there, what to write in its place is added.
/// @param words  the command line
std::string error_text(const std::string& message, const CLI::App& app,
                       std::span<const char* const> words);

}  // namespace penstock
