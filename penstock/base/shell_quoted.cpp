#include "penstock/base/shell_quoted.h"

namespace penstock {

std::string shell_quoted(const std::string& word) {
  const bool plain =
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+") ==
          std::string::npos &&
      !word.empty();
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace penstock
