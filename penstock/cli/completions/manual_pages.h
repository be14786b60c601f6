// The program's manual pages in man(7)'s language: a page for each command, and a page for the keys
// of recipes. Their text comes from --help and from the config structs.
#pragma once

#include <map>
#include <string>

#include "penstock/cli/completions/command_tree.h"

namespace penstock {

/// The pages by file name: penstock.1, penstock-train.1, ..., penstock-recipe.5.
/// @param date  the date on the pages, such as 2026-11-24
std::map<std::string, std::string> manual_pages(const CommandTree& tree, const std::string& date);

}  // namespace penstock
