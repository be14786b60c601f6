// bash_completion() of completions.h.
#include <fmt/format.h>

#include "penstock/base/joined.h"
#include "penstock/cli/completions/completion_words.h"
#include "penstock/cli/completions/completions.h"

namespace penstock {
namespace {

/// The script before the tables. bash splits words at "=", so the script first joins them again.
constexpr const char* kBegin = R"(# Completion of penstock for bash; written by `penstock manual`.
_penstock() {
  local -a words=()
  local i word previous current command=penstock prefix='' list=''
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]})) && { [[ $word == = ]] || [[ ${words[-1]} == *= && ${COMP_WORDS[i - 1]} == = ]]; }; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  current=${words[-1]}
  previous=''
  ((${#words[@]} > 1)) && previous=${words[-2]}
)";

/// The script after the tables. `list` has the words that may come next. bash does not replace the
/// text before a key's "=".
constexpr const char* kEnd =
    R"(  [[ $current == *=* && $COMP_WORDBREAKS == *=* ]] && prefix=${current%%=*}=
  mapfile -t COMPREPLY < <(compgen -W "$list" -- "$current")
  ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
}
complete -o bashdefault -o default -F _penstock penstock
)";

std::string pattern_of_commands(const CommandTree& tree) {
  std::vector<std::string> names;
  for (const CommandTree* command : all_commands(tree))
    if (command != &tree) names.push_back(single_quoted(command->name));
  return joined(names, " | ");
}

/// The `case` arms with the words that follow an option.
std::string values_of(const CommandTree& command) {
  std::string out;
  for (const auto& option : command.options) {
    if (option.positional || !option.takes_value()) continue;
    std::vector<std::string> arms;
    for (const auto& name : option.names) arms.push_back(single_quoted(command.name + " " + name));
    const char* const keys = command.name == "penstock finetune" ? "$finetune_keys" : "$keys";
    const std::string words = takes_key(option) ? keys : joined(option.choices, " ");
    out += fmt::format("    {}) list=\"{}\" given=1 ;;\n", joined(arms, " | "), words);
  }
  return out;
}

std::string words_at(const CommandTree& command) {
  std::vector<std::string> words = commands_below(command);
  for (const auto& option : command.options)
    if (option.positional) words.insert(words.end(), option.choices.begin(), option.choices.end());
  return fmt::format("    {}) list={}; options={} ;;\n", single_quoted(command.name),
                     single_quoted(joined(words, " ")),
                     single_quoted(joined(flags_of(command), " ")));
}

std::string with_choices() {
  std::string out;
  for (const auto& [key, words] : key_choices()) {
    std::vector<std::string> full;
    for (const auto& word : words) full.push_back(key + word);
    out +=
        fmt::format("    {}*) list={} ;;\n", single_quoted(key), single_quoted(joined(full, " ")));
  }
  return out;
}

}  // namespace

std::string bash_completion(const CommandTree& tree) {
  std::string values, words;
  for (const CommandTree* command : all_commands(tree)) {
    values += values_of(*command);
    words += words_at(*command);
  }
  return fmt::format(
      "{}  for word in \"${{words[@]:0:${{#words[@]}}-1}}\"; do\n"
      "    case \"$command $word\" in {}) command=\"$command $word\" ;; esac\n  done\n"
      "  local given='' options='' keys={} finetune_keys={}\n"
      "  case \"$command $previous\" in\n{}  esac\n"
      "  [[ $given && $current == *=* ]] && case \"$current\" in\n{}  esac\n"
      "  [[ $given ]] || case \"$command\" in\n{}  esac\n"
      "  [[ ! $given && $current == -* ]] && list=$options\n{}",
      kBegin, pattern_of_commands(tree), single_quoted(joined(keys_of("penstock train"), " ")),
      single_quoted(joined(keys_of("penstock finetune"), " ")), values, with_choices(), words,
      kEnd);
}

}  // namespace penstock
