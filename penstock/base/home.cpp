#include "penstock/base/home.h"

#include <cstdlib>

namespace penstock {

std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (!home || !*home || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

std::string home_remedy(const std::string& path) {
  if (!path.starts_with('~')) return "";
  return "; the shell puts the home directory in place of '~' only at the beginning of a word "
         "without quotes: write $HOME" +
         (path.starts_with("~/") ? path.substr(1) : std::string("/..."));
}

}  // namespace penstock
