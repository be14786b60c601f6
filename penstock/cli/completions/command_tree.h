// What the command line takes, as plain data: the commands with their options, read from the CLI11
// app that parses them, so that manual pages and completions say what the program does. Writes
// nothing.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace penstock {

/// An option, a flag or a positional argument of a command.
struct CommandOption {
  std::vector<std::string> names;  ///< "-h", "--help"; of a positional argument its one name
  std::string value;               ///< what it takes, as help names it: TEXT, INT; "" for a flag
  std::vector<std::string> choices;
  std::string default_value, help;
  bool positional = false, required = false;

  bool takes_value() const { return !value.empty(); }
};

struct CommandTree {
  std::string name;  ///< in full: "penstock data prepare"
  std::string summary, footer;
  std::vector<CommandOption> options;  ///< without --help
  std::vector<CommandTree> commands;
};

/// The app with all that is below it.
CommandTree command_tree(const CLI::App& app);

/// The command and all below it, parents first.
std::vector<const CommandTree*> all_commands(const CommandTree& tree);

}  // namespace penstock
