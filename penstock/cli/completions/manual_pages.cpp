#include "penstock/cli/completions/manual_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "penstock/base/joined.h"
#include "penstock/routers/registry.h"
#include "penstock/train/recipe.h"

namespace penstock {
namespace {

constexpr std::size_t kColumns = 76;

/// The text with man(7)'s special characters escaped.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '"':
        out += "\\(dq";
        break;
      default:
        out += c;
    }
  return out;
}

/// One line of text. A dot at its beginning is escaped, so that it is no request.
std::string line(const std::string& text) {
  const std::string out = plain(text);
  return (out.starts_with('.') ? "\\&" : "") + out + "\n";
}

/// A paragraph's lines, broken between words.
std::string lines(const std::string& text) {
  std::istringstream words(text);
  std::string out, row;
  for (std::string word; words >> word;) {
    if (!row.empty() && row.size() + 1 + word.size() > kColumns) {
      out += line(row);
      row.clear();
    }
    row += (row.empty() ? "" : " ") + word;
  }
  return row.empty() ? out : out + line(row);
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }
std::string section(const std::string& title) { return ".SH " + title + "\n"; }

std::string page_name(const CommandTree& command) {
  std::string out = command.name;
  std::ranges::replace(out, ' ', '-');
  return out;
}

std::string heading(std::string name, int number, const std::string& date) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return fmt::format(".TH {} {} {} \"Penstock {}\" \"Penstock's manual\"\n", plain(name), number,
                     date, PENSTOCK_VERSION);
}

std::string described(const CommandOption& option) {
  std::string label = joined(option.names, ", ", option.positional ? italic : bold);
  if (option.takes_value() && !option.positional) label += " " + italic(option.value);
  std::string text = option.help;
  if (!text.empty() && !text.ends_with('.')) text += ".";
  if (!option.choices.empty()) text += " One of: " + joined(option.choices) + ".";
  if (!option.default_value.empty()) text += " Default: " + option.default_value + ".";
  if (option.required) text += " Required.";
  return ".TP\n" + label + "\n" + (text.empty() ? "\\&\n" : lines(text));
}

std::string synopsis(const CommandTree& command) {
  std::string out = bold(command.name);
  const auto named = [](const CommandOption& option) { return !option.positional; };
  if (std::ranges::any_of(command.options, named)) out += " [" + italic("OPTION") + "]...";
  for (const auto& option : command.options)
    if (option.positional)
      out += option.required ? " " + italic(option.names[0]) : " [" + italic(option.names[0]) + "]";
  if (!command.commands.empty()) out += " " + italic("COMMAND");
  return out + "\n";
}

std::string options_section(const CommandTree& command, bool positional) {
  std::string out;
  for (const auto& option : command.options)
    if (option.positional == positional) out += described(option);
  return out.empty() ? "" : section(positional ? "ARGUMENTS" : "OPTIONS") + out;
}

/// The section of a help text's footer. Lines that begin with two spaces are commands to paste. The
/// footer's headings "Examples:" and "Start here:" are left out, for the section has a heading.
std::string footer_section(const std::string& footer) {
  std::istringstream rows(footer);
  std::string out, text;
  bool pasted = false;
  const auto flush = [&] {
    if (!text.empty()) out += (out.empty() ? "" : ".PP\n") + lines(text);
    text.clear();
  };
  for (std::string row; std::getline(rows, row);) {
    const bool command = row.starts_with("  ");
    if (row == "Examples:" || row == "Start here:") continue;
    if (command != pasted) {
      flush();
      out += command ? (out.empty() ? ".nf\n" : ".PP\n.nf\n") : ".fi\n";
    }
    pasted = command;
    if (command)
      out += line(row.substr(2));
    else
      text += (text.empty() ? "" : " ") + row;
  }
  flush();
  if (pasted) out += ".fi\n";
  return out.empty() ? "" : section("EXAMPLES AND NOTES") + out;
}

/// The program's page refers to all other pages, and they refer to it.
std::string see_also(const std::string& own, const CommandTree& tree) {
  std::string out;
  const auto add = [&](const std::string& name, int number) {
    if (name == own) return;
    out += (out.empty() ? ".BR " : ",\n.BR ") + fmt::format("{} ({})", plain(name), number);
  };
  for (const CommandTree* command : all_commands(tree))
    if (command == &tree || own == page_name(tree)) add(page_name(*command), 1);
  add("penstock-recipe", 5);
  return section("SEE ALSO") + out + "\n";
}

std::string command_page(const CommandTree& command, const CommandTree& tree,
                         const std::string& date) {
  const std::string name = page_name(command);
  std::string out = heading(name, 1, date) + section("NAME") + plain(name) + " \\- " +
                    line(command.summary) + section("SYNOPSIS") + synopsis(command);
  if (!command.commands.empty()) {
    out += section("COMMANDS");
    for (const auto& below : command.commands)
      out += ".TP\n" + bold(below.name) + "\n" + lines(below.summary + ".");
  }
  out += options_section(command, true) + options_section(command, false);
  if (&command == &tree)
    out += section("EXIT STATUS") + ".TP\n0\ndone\n.TP\n1\nan error\n.TP\n2\nwrong usage\n" +
           ".TP\n130\ninterrupted; what was reached is saved\n";
  return out + footer_section(command.footer) + see_also(name, tree);
}

std::string described(const FieldDescription& field, const std::string& key) {
  std::string text = field.help + ".";
  if (!field.range.empty())
    text += " " + field.type + ", " + field.range + ".";
  else
    text += " " + field.type + ".";
  if (!field.default_value.empty()) text += " Default: " + field.default_value + ".";
  return ".TP\n" + bold(key) + "\n" + lines(text);
}

template <class Registry>
std::string part_sections(const Registry& registry) {
  std::string out;
  for (const auto& [name, entry] : registry.entries()) {
    if (entry.fields.empty()) continue;
    out += section(plain("[model.router." + name + "]")) + lines(entry.summary + ".");
    for (const auto& field : entry.fields) out += described(field, field.path);
  }
  return out;
}

std::string recipe_page(const CommandTree& tree, const std::string& date) {
  std::string out =
      heading("penstock-recipe", 5, date) + section("NAME") +
      "penstock\\-recipe \\- the keys of Penstock\\(aqs training recipes\n" +
      section("DESCRIPTION") +
      lines(
          "A recipe is a TOML file that says what is trained, on what and how. Every key has a "
          "default; an unknown one is an error that names the nearest. On a command line, "
          "--set KEY=VALUE changes a key for one run. `penstock train --template METHOD` prints "
          "a recipe with every key.");
  std::string table = "-";
  for (const auto& field : describe_config<Recipe>()) {
    if (field.type == "table" && field.path.ends_with("<part>")) continue;
    const auto dot = field.path.rfind('.');
    const std::string above = dot == field.path.npos ? "" : field.path.substr(0, dot);
    if (above != table)
      out += section(plain(above.empty() ? "TOP OF THE FILE" : "[" + above + "]"));
    table = above;
    out += described(field, dot == field.path.npos ? field.path : field.path.substr(dot + 1));
  }
  return out + part_sections(scorer_registry()) + part_sections(selector_registry()) +
         part_sections(balancer_registry()) + see_also("penstock-recipe", tree);
}

}  // namespace

std::map<std::string, std::string> manual_pages(const CommandTree& tree, const std::string& date) {
  std::map<std::string, std::string> out;
  for (const CommandTree* command : all_commands(tree))
    out[page_name(*command) + ".1"] = command_page(*command, tree, date);
  out["penstock-recipe.5"] = recipe_page(tree, date);
  return out;
}

}  // namespace penstock
