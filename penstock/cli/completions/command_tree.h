// The command line as plain data: the commands with their options. They are read from the CLI11 app
// that parses them, so that manual pages and completions match the program. Writes nothing.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace penstock {

/// An option, a flag or a positional argument of a command.
struct CommandOption {
  std::vector<std::string> names;  ///< "-h", "--help"; one name for a positional argument
  std::string value;               ///< the value's type in help: TEXT, INT; "" for a flag
  std::vector<std::string> choices;
  std::string default_value, help;
  bool positional = false, required = false;

  bool takes_value() const { return !value.empty(); }
};

struct CommandTree {
  std::string name;  ///< the full name: "penstock data prepare"
  std::string summary, footer;
  std::vector<CommandOption> options;  ///< without --help
  std::vector<CommandTree> commands;
};

/// The app with all its commands.
CommandTree command_tree(const CLI::App& app);

/// The command and all commands below it, parents first.
std::vector<const CommandTree*> all_commands(const CommandTree& tree);

}  // namespace penstock
