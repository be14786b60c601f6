#include "penstock/cli/completions/command_tree.h"

#include <algorithm>
#include <initializer_list>

#include "penstock/routers/methods.h"
#include "penstock/routers/registry.h"

namespace penstock {
namespace {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// The words of a type "{a | b}" or "TEXT:{a,b}"; none for other types.
std::vector<std::string> choices_of(const std::string& type) {
  const auto open = type.find('{'), close = type.find('}');
  if (open == type.npos || close == type.npos || close < open) return {};
  std::vector<std::string> out;
  for (auto begin = open + 1; begin < close;) {
    const auto end = std::min(type.find_first_of(",|", begin), close);
    out.push_back(trimmed(type.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

/// The names in all lists, sorted, each once.
std::vector<std::string> united(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> out;
  for (const auto& names : lists) out.insert(out.end(), names.begin(), names.end());
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The names of registries, which the program's help does not list.
std::vector<std::string> registered_choices(const CommandTree& command, const std::string& name) {
  if (name == "--method" || name == "--template") return method_registry().names();
  if (name == "--scorer") return united({scorer_registry().names(), method_registry().names()});
  if (command.name != "penstock routers" || name != "NAME") return {};
  return united({method_registry().names(), scorer_registry().names(), selector_registry().names(),
                 balancer_registry().names()});
}

CommandOption option_of(const CommandTree& command, const CLI::Option& option) {
  CommandOption out{.help = option.get_description(),
                    .positional = option.get_positional(),
                    .required = option.get_required()};
  if (out.positional) {
    out.names = {option.get_name(true)};
  } else {
    for (const auto& name : option.get_snames()) out.names.push_back("-" + name);
    for (const auto& name : option.get_lnames()) out.names.push_back("--" + name);
  }
  if (option.get_items_expected_max() == 0) return out;  // a flag
  const std::string type = option.get_type_name();
  out.choices = choices_of(type);
  if (out.choices.empty()) out.choices = registered_choices(command, out.names.back());
  const std::string word = type.substr(0, type.find_first_of(":{ "));
  out.value = word.empty() ? "WORD" : word;
  out.default_value = option.get_default_str();
  return out;
}

CommandTree tree_below(const CLI::App& app, const std::string& above) {
  CommandTree out{.name = above.empty() ? app.get_name() : above + " " + app.get_name(),
                  .summary = app.get_description(),
                  .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty() && option != app.get_help_ptr())
      out.options.push_back(option_of(out, *option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    out.commands.push_back(tree_below(*command, out.name));
  return out;
}

}  // namespace

CommandTree command_tree(const CLI::App& app) { return tree_below(app, ""); }

std::vector<const CommandTree*> all_commands(const CommandTree& tree) {
  std::vector<const CommandTree*> out = {&tree};
  for (const CommandTree& command : tree.commands)
    for (const CommandTree* below : all_commands(command)) out.push_back(below);
  return out;
}

}  // namespace penstock
