#include "penstock/cli/arguments/field_options.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "penstock/base/error.h"
#include "penstock/cli/arguments/whole_number.h"

namespace penstock {
namespace {

ConfigNode::Value value_of(const std::string& type, const std::string& text) {
  if (type == "int") return static_cast<std::int64_t>(std::stoll(text));
  if (type != "float") return text;
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The default value, written as on the command line.
std::string default_text(const FieldDescription& field) {
  const std::string& value = field.default_value;
  if (field.type == "bool") return field.words[value == "true"];
  return value.size() > 1 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
}

std::string type_text(const FieldDescription& field) {
  if (field.type == "int") return "INT";
  if (field.type == "float") return "NUMBER";
  return field.words.empty() ? "TEXT" : "{" + field.range + "}";
}

std::int64_t bound(double value) {
  constexpr auto kMost = static_cast<double>(kLargestCount);
  return static_cast<std::int64_t>(std::clamp(value, -kMost, kMost));
}

/// Refuses values that the field does not allow.
CLI::Validator check_of(const FieldDescription& field) {
  if (field.type == "int") return whole_number(bound(field.min), bound(field.max));
  if (field.type == "float") return real_number(field.min, field.max);
  if (field.words.empty()) return CLI::Validator();
  return CLI::IsMember(field.words).description("");
}

/// @param in_place  the bool whose word this option takes instead of a number, or null
void add_option(CLI::App& command, const FieldDescription& field, const FieldDescription* in_place,
                const FieldTaker& take) {
  const std::string flag = flag_of(field), word = in_place ? in_place->in_place : "";
  const std::string of_word = in_place ? in_place->path : "";
  const auto read = [=](const std::string& text) {
    const bool said = !word.empty() && text == word;
    ConfigNode given;
    given.set(
        said ? of_word : field.path,
        ConfigNode(said ? ConfigNode::Value(true) : value_of(field.type, text), flag + " " + text));
    take(given);
  };
  const auto check = [=, of_field = check_of(field)](std::string& text) {
    if (!word.empty() && text == word) return std::string();
    const std::string wrong = of_field(text);
    return wrong.empty() || word.empty() ? wrong : concat(wrong, "; or `", word, "`");
  };
  const std::string help =
      in_place ? concat(field.help, "; `", word, "`: ", in_place->help) : field.help;
  command.add_option_function<std::string>(flag, read, help)
      ->type_name(type_text(field))
      ->check(CLI::Validator(check, ""))
      ->default_str(default_text(field));
}

}  // namespace

std::string flag_of(const FieldDescription& field) {
  std::string out = "--" + field.option;
  std::ranges::replace(out, '_', '-');
  return out;
}

void add_field_options(CLI::App& command, const std::vector<FieldDescription>& fields,
                       const FieldTaker& take) {
  for (const FieldDescription& field : fields) {
    if (field.option == "-" || field.type == "table" || !field.in_place.empty()) continue;
    if (field.type == "bool" && field.words.empty()) {
      const std::string flag = flag_of(field);
      command.add_flag_callback(
          flag,
          [take, field, flag] {
            ConfigNode given;
            given.set(field.path, ConfigNode(true, flag));
            take(given);
          },
          field.help);
      continue;
    }
    const auto in_place = std::ranges::find_if(fields, [&](const FieldDescription& other) {
      return !other.in_place.empty() && other.option == field.option;
    });
    add_option(command, field, in_place == fields.end() ? nullptr : &*in_place, take);
  }
}

}  // namespace penstock
