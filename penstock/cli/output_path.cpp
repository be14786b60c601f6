#include "penstock/cli/output_path.h"

#include <filesystem>

#include "penstock/base/error.h"

namespace penstock {

CLI::Validator output_path() {
  return CLI::Validator(
      [](std::string& path) {
        while (path.size() > 1 && path.ends_with('/')) path.pop_back();
        return path.empty() || path == "/" ? std::string("name what to write") : std::string();
      },
      "PATH");
}

void check_overwrites_no_input(const std::string& path, const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code none;  // what is not there is not overwritten
  PENSTOCK_CHECK(!fs::is_directory(path, none), path, ": is a folder; name a file in it");
  PENSTOCK_CHECK(input.empty() || !fs::equivalent(path, input, none), path,
                 ": is what the command reads; name another file");
  const fs::path folder = fs::path(path).parent_path();
  PENSTOCK_CHECK(!fs::exists(path, none) || !fs::exists(folder / "config.json", none), path,
                 ": is a file of a model; name another");
}

}  // namespace penstock
