#include "penstock/cli/completions/completion_words.h"

#include <algorithm>

#include "penstock/cli/arguments/common_options.h"
#include "penstock/finetune/config.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/registry.h"
#include "penstock/train/recipe.h"

namespace penstock {
namespace {

/// Every key of a recipe, including the keys of the routers' parts.
std::vector<FieldDescription> recipe_fields() {
  std::vector<FieldDescription> out;
  const auto add_parts = [&](const auto& registry) {
    for (const auto& [name, entry] : registry.entries())
      for (FieldDescription field : entry.fields) {
        field.path = "model.router." + name + "." + field.path;
        out.push_back(std::move(field));
      }
  };
  for (const auto& field : describe_config<Recipe>())
    if (!field.path.ends_with(".<part>")) out.push_back(field);
  add_parts(scorer_registry());
  add_parts(selector_registry());
  add_parts(balancer_registry());
  return out;
}

std::vector<std::string> words_of_range(const std::string& range) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; range.find(" | ") != range.npos && begin < range.size();) {
    const auto end = std::min(range.find(" | ", begin), range.size());
    out.push_back(range.substr(begin, end - begin));
    begin = end + 3;
  }
  return out;
}

}  // namespace

std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string short_help(const std::string& help) {
  constexpr std::size_t kLongest = 70;
  std::string out = help.substr(0, std::min(help.find_first_of(";("), help.find(": ")));
  if (out.size() > kLongest) out.resize(out.rfind(' ', kLongest));
  while (!out.empty() && (out.back() == ' ' || out.back() == ',')) out.pop_back();
  std::erase_if(out, [](char c) { return c == '[' || c == ']' || c == '`' || c == ':'; });
  return out;
}

std::vector<std::string> flags_of(const CommandTree& command) {
  std::vector<std::string> out = {"--help"};
  for (const auto& option : command.options)
    if (!option.positional) out.insert(out.end(), option.names.begin(), option.names.end());
  return out;
}

std::vector<std::string> commands_below(const CommandTree& command) {
  std::vector<std::string> out;
  for (const auto& below : command.commands)
    out.push_back(below.name.substr(command.name.size() + 1));
  return out;
}

bool takes_key(const CommandOption& option) { return option.names.back() == kSetOption; }

std::vector<std::string> keys_of(const std::string& command) {
  const auto fields =
      command == "penstock finetune" ? describe_config<FinetuneConfig>() : recipe_fields();
  std::vector<std::string> out;
  for (const auto& field : fields) out.push_back(field.path + "=");
  return out;
}

std::vector<KeyChoices> key_choices() {
  std::vector<KeyChoices> out;
  for (const auto& field : recipe_fields()) {
    auto words = words_of_range(field.range);
    if (field.type == "bool" && words.empty()) words = {"true", "false"};
    if (field.path == "model.router.method") words = method_registry().names();
    if (!words.empty()) out.push_back({field.path + "=", std::move(words)});
  }
  return out;
}

bool takes_number(const CommandOption& option) {
  return option.value == "INT" || option.value == "UINT" || option.value == "FLOAT" ||
         option.value == "NUMBER";
}

}  // namespace penstock
