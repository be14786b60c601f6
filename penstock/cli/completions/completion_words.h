// What completions of every shell are made of: lists of words from the command tree and the config
// structs. Knows no shell's language.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/cli/completions/command_tree.h"

namespace penstock {

std::string joined(const std::vector<std::string>& words, std::string_view between);

/// `text` between single quotes, as bash, zsh and fish read it.
std::string single_quoted(const std::string& text);

/// The first clause of an option's or a command's help, without what shells read as their own.
std::string short_help(const std::string& help);

/// The flags of the command's options, with --help.
std::vector<std::string> flags_of(const CommandTree& command);

/// The names of the commands right below.
std::vector<std::string> commands_below(const CommandTree& command);

/// Whether the option's value is KEY=VALUE of a config.
bool takes_key(const CommandOption& option);

/// The keys that --set takes, each with "=" behind it, for a command of this name.
std::vector<std::string> keys_of(const std::string& command);

/// A key of a recipe whose value is one of few words: "model.architecture=" and the words.
struct KeyChoices {
  std::string key;
  std::vector<std::string> words;
};
std::vector<KeyChoices> key_choices();

/// Whether the option's value is neither a path nor free text.
bool takes_number(const CommandOption& option);

}  // namespace penstock
