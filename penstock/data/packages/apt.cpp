#include "penstock/data/packages/apt.h"

#include <cstdlib>
#include <map>
#include <sstream>

#include "penstock/data/packages/package_files.h"
#include "penstock/data/packages/run_program.h"

namespace penstock {
namespace {

/// The newest package name that fits the pattern. A pattern without '*' is the name itself.
std::string resolve(const std::string& pattern) {
  const auto star = pattern.find('*');
  if (star == pattern.npos) return pattern;
  std::istringstream names(
      run_program({"apt-cache", "pkgnames", pattern.substr(0, star)}, "/", false).output);
  std::vector<PackageFile> known;
  for (std::string name; std::getline(names, name);) known.push_back({name, "", ""});
  const auto newest = newest_package(known, pattern);
  return newest ? newest->name : std::string();
}

/// The first paragraph of each package in the output of `apt-cache show`, by name.
std::map<std::string, AptPackage> parse(const std::string& shown) {
  std::map<std::string, AptPackage> out;
  AptPackage package;
  const auto end = [&] {
    if (!package.name.empty()) out.emplace(package.name, package);
    package = {};
  };
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) end();
    const auto colon = line.find(": ");
    if (colon == line.npos || line.starts_with(' ')) continue;
    const std::string key = line.substr(0, colon), value = line.substr(colon + 2);
    if (key == "Package") package.name = value;
    if (key == "Version") package.version = value;
    if (key == "Architecture") package.architecture = value;
    if (key == "SHA256") package.sha256 = value;
    if (key == "Size") package.bytes = std::strtoull(value.c_str(), nullptr, 10);
  }
  end();
  return out;
}

}  // namespace

std::string AptPackage::file_name() const {
  std::string named = version;
  for (std::size_t at = 0; (at = named.find(':', at)) != named.npos;) named.replace(at, 1, "%3a");
  return name + "_" + named + "_" + architecture + ".deb";
}

std::vector<AptPackage> apt_packages(std::span<const std::string> patterns) {
  std::vector<std::string> names,
      command = {"apt-cache", "show", "-o", "APT::Cache::AllVersions=0"};
  for (const auto& pattern : patterns)
    if (auto name = resolve(pattern); !name.empty()) names.push_back(std::move(name));
  if (names.empty()) return {};
  command.insert(command.end(), names.begin(), names.end());
  // apt-cache ends with an error if it does not know one of the names, so its status is not read.
  const auto known = parse(run_program(command, "/", false).output);
  std::vector<AptPackage> out;
  for (const auto& name : names)
    if (const auto found = known.find(name); found != known.end()) out.push_back(found->second);
  return out;
}

std::string apt_download(const AptPackage& package, const std::string& folder) {
  const auto result = run_program(
      {"apt-get", "download", "-q", package.name + "=" + package.version}, folder, true);
  if (result.status == 0) return {};
  // The last error line is the most specific.
  std::string why = "apt-get ended with status " + std::to_string(result.status);
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("E: ")) why = line.substr(3);
  return why;
}

}  // namespace penstock
