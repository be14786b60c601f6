#include "penstock/cli/arguments/output_path.h"

#include <filesystem>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/links.h"

namespace penstock {
namespace {

/// Drops slashes at the end. Returns what is wrong with the path, or "".
std::string trim(std::string& path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.empty() || path == "/" ? "name what to write" : "";
}

}  // namespace

CLI::Validator output_path() { return CLI::Validator(trim, "PATH"); }

std::string output_path(std::string path, const std::string& name) {
  const std::string problem = trim(path);
  PENSTOCK_CHECK(problem.empty(), name, ": ", problem);
  const std::size_t nul = path.find('\0');  // the system would take the path to end there
  PENSTOCK_CHECK(nul == path.npos, name, ": has a NUL after '", path.substr(0, nul),
                 "', which no path may have");
  return path;
}

void check_overwrites_no_input(const std::string& path, const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code none;  // a path that does not exist overwrites nothing
  PENSTOCK_CHECK(!fs::is_directory(path, none), path, ": is a folder; name a file in it");
  PENSTOCK_CHECK(input.empty() || !fs::equivalent(path, input, none), path,
                 ": is what the command reads; name another file");
  const fs::path folder = parent_directory(followed(path));
  PENSTOCK_CHECK(!fs::exists(path, none) || !fs::exists(folder / "config.json", none), path,
                 ": is a file of a model; name another");
}

namespace {

/// Refuses a leading "~" that no shell has replaced, which would make a folder of that name.
void check_no_home_sign(const std::string& path) {
  PENSTOCK_CHECK(!path.starts_with('~'), path, ": begins with '~'; write ./", path,
                 " for a file of that name");
}

/// Makes a temporary file, as a write would, and removes it.
void try_to_write(const std::filesystem::path& file, const std::string& path) {
  try {
    const AtomicFile trial(real_file_system(), file);
  } catch (const Error& error) {
    fail(path, ": cannot be written there (", error.what(), "); name another place");
  }
}

}  // namespace

void check_can_write(const std::string& path) {
  if (path.empty()) return;
  check_no_home_sign(path);
  followed(path);  // throws for a circle of links, with a clearer error than those below
  std::error_code none;
  PENSTOCK_CHECK(!std::filesystem::is_directory(path, none), path,
                 ": is a folder; name a file in it");
  PENSTOCK_CHECK(
      !std::filesystem::exists(path, none) || std::filesystem::is_regular_file(path, none), path,
      ": is no regular file, and would be replaced by one; name another");
  try_to_write(path, path);
}

void check_can_make(const std::string& path) {
  namespace fs = std::filesystem;
  check_no_home_sign(path);
  std::error_code none;  // a circle of links counts as missing
  fs::path folder = followed(path);
  while (!fs::exists(folder, none) && folder != parent_directory(folder))
    folder = parent_directory(folder);
  PENSTOCK_CHECK(fs::is_directory(folder), path, ": ", folder.string(),
                 " is a file, not a folder; name another place");
  try_to_write(folder / "penstock-trial", path);
}

}  // namespace penstock
