#include "penstock/cli/error_text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

/// The innermost command of the command line.
const CLI::App& command_of(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : command_of(*parsed.front());
}

/// Members that a command has as another flag, or as one value of a flag.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOtherFlags{
    {{"collapsed", "--router-form collapsed"},
     {"correct_gain", "--norm-gain"},
     {"match_lr", "--lr-scale match"},
     {"shared_width", "--shared-expert"}}};

/// What `command` calls that member; "" where it has no such flag.
std::string flag_text(const std::string& member, const CLI::App& command) {
  std::string out = "--" + member;
  std::ranges::replace(out, '_', '-');
  for (const auto& [name, text] : kOtherFlags)
    if (name == member) out = text;
  return command.get_option_no_throw(out.substr(0, out.find(' '))) ? out : "";
}

/// `message` with flags, but for what a word of the command line says ("options.toml").
std::string with_flags(const std::string& message, const CLI::App& command,
                       std::span<const char* const> words) {
  static const std::regex member(R"(\boptions\.([a-z][a-z_]*))");
  std::string out;
  auto from = message.begin();
  for (std::sregex_iterator it(message.begin(), message.end(), member), end; it != end; ++it) {
    const std::string flag = flag_text((*it)[1], command);
    const bool said = std::ranges::any_of(words, [&](const char* word) {
      return std::string(word).find((*it)[0].str()) != std::string::npos;
    });
    out.append(from, (*it)[0].first);
    out += said || flag.empty() ? (*it)[0].str() : flag;
    from = (*it)[0].second;
  }
  return out.append(from, message.end());
}

/// The path that a word of the command line gives ("~/a", "--out=~/a", "NAME=~/a") where it begins
/// with "~"; else "".
std::string path_with_tilde(const std::string& word) {
  if (word.starts_with('~')) return word;
  const auto equals = word.find("=~");
  return equals == std::string::npos ? "" : word.substr(equals + 1);
}

}  // namespace

std::string error_text(const std::string& message, const CLI::App& app,
                       std::span<const char* const> words) {
  const std::string text = with_flags(message, command_of(app), words);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i], path = path_with_tilde(word);
    // A key's value is read with the home directory in place of its "~".
    const bool key = word.starts_with("--set=") || std::string(words[i - 1]) == "--set";
    if (path.empty() || key || text.find(path) == std::string::npos) continue;
    if (std::filesystem::exists(path)) continue;
    return text +
           "; the shell puts the home directory in place of '~' only at the beginning of a word "
           "without quotes: write $HOME" +
           (path.starts_with("~/") ? path.substr(1) : std::string("/..."));
  }
  return text;
}

}  // namespace penstock
