// zsh_completion() of completions.h.
#include <fmt/format.h>

#include "penstock/base/joined.h"
#include "penstock/cli/completions/completion_words.h"
#include "penstock/cli/completions/completions.h"

namespace penstock {
namespace {

std::string action_of(const CommandTree& command, const CommandOption& option) {
  if (takes_key(option))
    return command.name == "penstock finetune" ? "_penstock_finetune_keys" : "_penstock_keys";
  if (!option.choices.empty()) return "(" + joined(option.choices, " ") + ")";
  return takes_number(option) ? " " : "_files";
}

/// The option in the form that _arguments takes.
std::string spec_of(const CommandTree& command, const CommandOption& option,
                    const std::string& name) {
  if (option.positional) return single_quoted("*:" + name + ":" + action_of(command, option));
  std::string out = "*" + name + "[" + short_help(option.help) + "]";
  if (option.takes_value()) out += ":" + option.value + ":" + action_of(command, option);
  return single_quoted(out);
}

std::string arm_of(const CommandTree& command) {
  std::string out = "    " + single_quoted(command.name) + ")\n";
  if (!command.commands.empty()) {
    out += "      local -a below=(";
    const auto names = commands_below(command);
    for (std::size_t i = 0; i < names.size(); ++i)
      out += " " + single_quoted(names[i] + ":" + short_help(command.commands[i].summary));
    out += " )\n      [[ $PREFIX == -* ]] || _describe command below\n";
  }
  out += "      _arguments -S '--help[print help]'";
  bool rest = false;  // _arguments takes one specification for all words that are no options
  for (const auto& option : command.options) {
    if (option.positional && std::exchange(rest, true)) continue;
    for (const auto& name : option.names) out += " " + spec_of(command, option, name);
  }
  return out + "\n      ;;\n";
}

std::string zsh_keys(const std::string& name, const std::vector<std::string>& keys,
                     const std::vector<KeyChoices>& choices) {
  std::string out = name + "() {\n  local -a keys=(" + joined(keys, " ") + ")\n  local -a values=(";
  for (const auto& [key, words] : choices)
    for (const auto& word : words) out += key + word + " ";
  return out + ")\n  compadd -S '' -a keys\n  [[ $PREFIX == *=* ]] && compadd -a values\n}\n";
}

}  // namespace

std::string zsh_completion(const CommandTree& tree) {
  std::vector<std::string> names;
  std::string arms;
  for (const CommandTree* command : all_commands(tree)) {
    if (command != &tree) names.push_back(single_quoted(command->name));
    arms += arm_of(*command);
  }
  return "#compdef penstock\n# Completion of penstock for zsh; written by `penstock manual`.\n" +
         zsh_keys("_penstock_keys", keys_of("penstock train"), key_choices()) +
         zsh_keys("_penstock_finetune_keys", keys_of("penstock finetune"), {}) +
         fmt::format(
             "_penstock() {{\n"
             "  local at=penstock depth=1 i\n"
             "  for ((i = 2; i < CURRENT; ++i)); do\n"
             "    case \"$at ${{words[i]}}\" in ({}) at=\"$at ${{words[i]}}\"; depth=$i ;; esac\n"
             "  done\n"
             "  shift $((depth - 1)) words\n"
             "  ((CURRENT -= depth - 1))\n"
             "  case \"$at\" in\n{}  esac\n}}\n"
             "_penstock \"$@\"\n",
             joined(names, "|"), arms);
}

}  // namespace penstock
