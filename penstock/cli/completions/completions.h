// Completions for shells: what may follow what was typed, as scripts that bash, zsh and fish read.
// They know the commands, their options, the choices of these and the keys of recipes.
#pragma once

#include <string>

#include "penstock/cli/completions/command_tree.h"

namespace penstock {

/// For /usr/share/bash-completion/completions/penstock; needs nothing of the package
/// bash-completion.
std::string bash_completion(const CommandTree& tree);
/// For a folder of zsh's $fpath, as _penstock.
std::string zsh_completion(const CommandTree& tree);
/// For a folder of fish's $fish_complete_path, as penstock.fish.
std::string fish_completion(const CommandTree& tree);

}  // namespace penstock
