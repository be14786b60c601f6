#include "penstock/cli/error_text.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "penstock/base/member_names.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/field_options.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/handoff.h"
#include "penstock/convert/upcycle/upcycle_options.h"

namespace penstock {
namespace {

/// The innermost command of the command line.
const CLI::App& command_of(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : command_of(*parsed.front());
}

/// Finds the field of that name in the options of upcycle, handoff and export, which have an option
/// for each field. If there is none, returns a field whose option is the member's name.
FieldDescription field_of(const std::string& member) {
  for (const auto& fields : {describe_config<UpcycleOptions>(), describe_config<HandoffOptions>(),
                             describe_config<ExportOptions>()})
    for (const FieldDescription& field : fields)
      if (field.path == member) return field;
  FieldDescription out;
  out.option = member;
  return out;
}

/// The member's flag in `command`; "" where the command has no such flag. A bool that is given by
/// words is followed by the word that is not its default.
std::string flag_text(const std::string& member, const CLI::App& command) {
  const FieldDescription field = field_of(member);
  const std::string flag = flag_of(field);
  if (!command.get_option_no_throw(flag)) return "";
  if (!field.in_place.empty()) return flag + " " + field.in_place;
  if (field.type != "bool" || field.words.empty()) return flag;
  return flag + " " + field.words[field.default_value == "false"];
}

/// `message` with flags in place of members. A name that a word of the command line contains
/// ("options.toml") stays.
std::string with_flags(const std::string& message, const CLI::App& command,
                       std::span<const char* const> words) {
  return with_members(message, [&](const std::string& member) {
    const bool said = std::ranges::any_of(words, [&](const char* word) {
      return std::string(word).find("options." + member) != std::string::npos;
    });
    return said ? "" : flag_text(member, command);
  });
}

/// The path that a word of the command line gives ("~/a", "--out=~/a", "NAME=~/a"), if the path
/// begins with "~"; else "".
std::string path_with_tilde(const std::string& word) {
  if (word.starts_with('~')) return word;
  const auto equals = word.find("=~");
  return equals == std::string::npos ? "" : word.substr(equals + 1);
}

/// What to write instead of a path that begins with "~".
std::string home_note(const std::string& path) {
  return "; the shell puts the home directory in place of '~' only at the beginning of a word "
         "without quotes: write $HOME" +
         (path.starts_with("~/") ? path.substr(1) : std::string("/..."));
}

/// Where a recipe lies that --help and the documentation name by its place in the sources. An
/// installed program has the recipes beside it: /usr/bin/penstock in /usr/share/doc.
std::string recipe_note(const std::string& recipe) {
  const std::filesystem::path examples = "share/doc/penstock/examples";
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  const auto installed = program.parent_path().parent_path() / examples / recipe;
  if (std::filesystem::exists(installed, none))
    return "; the installation has it as " + installed.string();
  return "; Penstock's own recipes are in its sources, and its packages have them in /usr/" +
         (examples / "recipes").string();
}

}  // namespace

std::string error_text(const std::string& message, const CLI::App& app,
                       std::span<const char* const> words) {
  const std::string text = with_flags(message, command_of(app), words);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i], path = path_with_tilde(word);
    // In a key's value, the program itself replaces "~" by the home directory.
    const bool key =
        word.starts_with(std::string(kSetOption) + "=") || std::string(words[i - 1]) == kSetOption;
    if (word.starts_with("recipes/") && text.starts_with(word + ": cannot be opened"))
      return text + recipe_note(word);
    if (path.empty() || key || text.find(path) == std::string::npos) continue;
    if (!std::filesystem::exists(path)) return text + home_note(path);
  }
  return text;
}

}  // namespace penstock
