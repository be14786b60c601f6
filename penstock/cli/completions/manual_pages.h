// The program's manual pages in man(7)'s language: one for each command, and one of a recipe's
// keys. Their words are those of --help and of the config structs.
#pragma once

#include <map>
#include <string>

#include "penstock/cli/completions/command_tree.h"

namespace penstock {

/// Each page by its file's name: penstock.1, penstock-train.1, ..., penstock-recipe.5.
/// @param date  the day that the pages name, as 2026-11-24
std::map<std::string, std::string> manual_pages(const CommandTree& tree, const std::string& date);

}  // namespace penstock
