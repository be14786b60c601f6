#include "penstock/base/home.h"

#include <cstdlib>

namespace penstock {

std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (!home || !*home || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

}  // namespace penstock
