#include "penstock/cli/arguments/given_value.h"

#include <string>
#include <string_view>

namespace penstock {
namespace {

/// The name of the validator that marks an option whose value may be empty; it refuses nothing.
constexpr const char* kMayBeEmpty = "may be empty";

bool takes_empty(CLI::Option& option) {
  try {
    return option.get_validator(kMayBeEmpty) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

constexpr const char* kEmpty = "is empty; give a value, or leave the option out";

std::string wrong_if_empty(std::string& value) { return value.empty() ? kEmpty : ""; }

}  // namespace

CLI::Option* may_be_empty(CLI::Option* option) {
  const auto nothing = [](std::string&) { return std::string(); };
  return option->check(CLI::Validator(nothing, ""), kMayBeEmpty);
}

void refuse_empty_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const bool has_value = option->get_items_expected_min() > 0;
    if (has_value && !option->get_positional() && !takes_empty(*option))
      option->check(CLI::Validator(wrong_if_empty, ""));
  }
  for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; }))
    refuse_empty_values(*below);
}

void refuse_empty_values(std::span<const char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--") return;
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      throw CLI::ValidationError(std::string(word.substr(0, word.size() - 1)), kEmpty);
  }
}

}  // namespace penstock
