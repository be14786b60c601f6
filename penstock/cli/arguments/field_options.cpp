#include "penstock/cli/arguments/field_options.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "penstock/cli/arguments/whole_number.h"

namespace penstock {
namespace {

ConfigNode::Value value_of(const std::string& type, const std::string& text) {
  if (type == "int") return static_cast<std::int64_t>(std::stoll(text));
  if (type == "float") return std::strtod(text.c_str(), nullptr);  // too large: infinity
  return text;
}

std::string flag_of(const FieldDescription& field) {
  std::string out = "--" + field.option;
  std::ranges::replace(out, '_', '-');
  return out;
}

/// The default as it is given on the command line.
std::string default_text(const FieldDescription& field) {
  const std::string& value = field.default_value;
  if (field.type == "bool") {  // one of "off | on"
    const auto between = field.range.find(" | ");
    return value == "true" ? field.range.substr(between + 3) : field.range.substr(0, between);
  }
  return value.size() > 1 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
}

std::string type_text(const FieldDescription& field) {
  if (field.type == "int") return "INT";
  if (field.type == "float") return "NUMBER";
  return field.range.empty() ? "TEXT" : "{" + field.range + "}";
}

}  // namespace

std::shared_ptr<ConfigNode> add_field_options(CLI::App& command,
                                              const std::vector<FieldDescription>& fields) {
  auto given = std::make_shared<ConfigNode>(ConfigNode::Value(ConfigNode::Table()));
  for (const FieldDescription& field : fields) {
    if (field.option == "-" || field.type == "table") continue;
    const std::string flag = flag_of(field);
    if (field.type == "bool" && field.range.empty()) {
      command.add_flag_callback(
          flag, [given, field, flag] { given->set(field.path, ConfigNode(true, flag)); },
          field.help);
      continue;
    }
    auto* const option = command.add_option_function<std::string>(
        flag,
        [given, field, flag](const std::string& text) {
          given->set(field.path, ConfigNode(value_of(field.type, text), flag + " " + text));
        },
        field.help);
    option->type_name(type_text(field));
    if (field.type == "int")
      option->check(whole_number(std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max()));
    if (field.type == "float") option->check(CLI::Validator(CLI::Number).description(""));
    if (const std::string usual = default_text(field); !usual.empty()) option->default_str(usual);
  }
  return given;
}

}  // namespace penstock
