// The lists of words that the completions of every shell use, from the command tree and the config
// structs. No shell's language is here.
#pragma once

#include <string>
#include <vector>

#include "penstock/cli/completions/command_tree.h"

namespace penstock {

/// `text` between single quotes, as bash, zsh and fish read it.
std::string single_quoted(const std::string& text);

/// The first clause of an option's or a command's help, without characters that shells interpret.
std::string short_help(const std::string& help);

/// The flags of the command's options, and --help.
std::vector<std::string> flags_of(const CommandTree& command);

/// The names of the command's direct subcommands.
std::vector<std::string> commands_below(const CommandTree& command);

/// Whether the option's value is KEY=VALUE of a config.
bool takes_key(const CommandOption& option);

/// The keys that --set of the command `command` takes, each followed by "=".
std::vector<std::string> keys_of(const std::string& command);

/// A recipe's key whose value is one of a few words: "model.architecture=" and the words.
struct KeyChoices {
  std::string key;
  std::vector<std::string> words;
};
std::vector<KeyChoices> key_choices();

/// Whether the option's value is neither a path nor free text.
bool takes_number(const CommandOption& option);

}  // namespace penstock
