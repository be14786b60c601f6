// Shell completions, as scripts for bash, zsh and fish. They complete commands, options, the words
// that an option takes, and the keys of recipes.
#pragma once

#include <string>

#include "penstock/cli/completions/command_tree.h"

namespace penstock {

/// The file /usr/share/bash-completion/completions/penstock. It does not need the functions of the
/// package bash-completion.
std::string bash_completion(const CommandTree& tree);
/// The file _penstock in a folder of zsh's $fpath.
std::string zsh_completion(const CommandTree& tree);
/// The file penstock.fish in a folder of fish's $fish_complete_path.
std::string fish_completion(const CommandTree& tree);

}  // namespace penstock
