#include "penstock/base/member_names.h"

#include <cctype>
#include <string_view>

namespace penstock {
namespace {

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The length of a lower-case letter and the letters or other allowed characters that follow it; 0
/// where `text` begins otherwise.
template <class Allowed>
std::size_t name_length(std::string_view text, const Allowed& allowed) {
  if (text.empty() || !is_letter(text.front())) return 0;
  std::size_t length = 1;
  while (length < text.size() && allowed(text[length])) ++length;
  return length;
}

/// The length of a member's name. It may be of any length, because messages quote files.
std::size_t member_length(std::string_view text) {
  return name_length(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

/// The length of one or more steps ".name" of a key.
std::size_t path_length(std::string_view text) {
  const auto allowed = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; };
  std::size_t length = 0;
  while (length < text.size() && text[length] == '.') {
    const std::size_t step = name_length(text.substr(length + 1), allowed);
    if (step == 0) break;
    length += 1 + step;
  }
  return length;
}

/// `message` with other(length_of(what follows)) in place of each `prefix` at the beginning of a
/// word and what follows it, where other() is not "" and length_of() not 0.
template <class Length, class Other>
std::string replaced(std::string_view message, std::string_view prefix, const Length& length_of,
                     const Other& other) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = message.find(prefix); at != std::string_view::npos;
       at = message.find(prefix, at)) {
    const bool begins_word = at == 0 || !is_word(message[at - 1]);
    const std::string_view rest = message.substr(at + prefix.size());
    const std::size_t length = begins_word ? length_of(rest) : 0;
    const std::string name = length > 0 ? other(std::string(rest.substr(0, length))) : "";
    const std::size_t end = at + prefix.size() + length;
    if (!name.empty()) {
      out.append(message.substr(copied, at - copied)).append(name);
      copied = end;
    }
    at = end;
  }
  return out.append(message.substr(copied));
}

}  // namespace

std::string with_members(const std::string& message,
                         const std::function<std::string(const std::string& member)>& named) {
  return replaced(message, "options.", member_length, named);
}

std::string with_model_keys(const std::string& message,
                            const std::function<std::string(const std::string& key)>& named) {
  return replaced(message, "model", path_length,
                  [&](const std::string& path) { return named("model" + path); });
}

}  // namespace penstock
