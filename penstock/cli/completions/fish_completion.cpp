// fish_completion() of completions.h.
#include <fmt/format.h>

#include "penstock/base/joined.h"
#include "penstock/cli/completions/completion_words.h"
#include "penstock/cli/completions/completions.h"

namespace penstock {
namespace {

/// The condition that the command line has reached this command.
std::string at(const CommandTree& command) {
  return fmt::format("complete -c penstock -n '__penstock_at \"{}\"'", command.name);
}

std::string option_line(const CommandTree& command, const CommandOption& option) {
  std::string out = at(command);
  for (const auto& name : option.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (takes_key(option))
    out += fmt::format(" -x -a '({})'", command.name == "penstock finetune"
                                            ? "__penstock_finetune_keys"
                                            : "__penstock_keys");
  else if (!option.choices.empty())
    out += " -x -a " + single_quoted(joined(option.choices, " "));
  else if (takes_number(option))
    out += " -x";
  else if (option.takes_value())
    out += " -r -F";
  return out + " -d " + single_quoted(short_help(option.help)) + "\n";
}

std::string lines_of(const CommandTree& command) {
  std::string out;
  const auto below = commands_below(command);
  for (std::size_t i = 0; i < below.size(); ++i)
    out += fmt::format("{} -f -a {} -d {}\n", at(command), below[i],
                       single_quoted(short_help(command.commands[i].summary)));
  for (const auto& option : command.options) {
    if (!option.positional)
      out += option_line(command, option);
    else if (!option.choices.empty())
      out += fmt::format("{} -f -a {}\n", at(command), single_quoted(joined(option.choices, " ")));
  }
  return out + at(command) + " -l help -d 'print help'\n";
}

std::string fish_keys(const std::string& name, const std::vector<std::string>& keys,
                      const std::vector<KeyChoices>& choices) {
  std::string out = "function " + name + "\n  printf '%s\\n'";
  for (const auto& key : keys) out += " " + key;
  for (const auto& [key, words] : choices)
    for (const auto& word : words) out += " " + key + word;
  return out + "\nend\n";
}

}  // namespace

std::string fish_completion(const CommandTree& tree) {
  std::string names, out;
  for (const CommandTree* command : all_commands(tree)) {
    if (command != &tree) names += " " + single_quoted(command->name);
    out += lines_of(*command);
  }
  return fmt::format(
             "# Completion of penstock for fish; written by `penstock manual`.\n"
             "function __penstock_at\n"
             "  set -l at penstock\n"
             "  for word in (commandline -opc)[2..-1]\n"
             "    contains -- \"$at $word\"{}; and set at \"$at $word\"\n"
             "  end\n"
             "  test \"$at\" = \"$argv[1]\"\n"
             "end\n",
             names) +
         fish_keys("__penstock_keys", keys_of("penstock train"), key_choices()) +
         fish_keys("__penstock_finetune_keys", keys_of("penstock finetune"), {}) + out;
}

}  // namespace penstock
