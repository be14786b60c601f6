// A check of options whose empty value would count as an option that is not given.
#pragma once

#include <CLI/CLI.hpp>
#include <span>

namespace penstock {

/// Lets the option have an empty value, which has a meaning of its own there. Returns the option.
CLI::Option* may_be_empty(CLI::Option* option);

/// Makes every named option of the command and of its subcommands refuse an empty value, such as
/// that of an unset shell variable, unless may_be_empty() was called for it.
/// Call it once, when all options are there.
void refuse_empty_values(CLI::App& command);

/// Throws CLI::ValidationError for a word such as `--items=`, for which CLI11 would take the next
/// word as the value.
void refuse_empty_values(std::span<const char* const> words);

}  // namespace penstock
