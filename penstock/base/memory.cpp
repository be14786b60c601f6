#include "penstock/base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

namespace penstock {
namespace {

namespace files = std::filesystem;

/// The number in the file; nullopt if it is absent or "max".
std::optional<double> read_limit(const files::path& path) {
  std::ifstream in(path);
  double value = 0;
  if (in >> value && value > 0) return value;
  return std::nullopt;
}

/// The names of a control group's files.
struct Version {
  const char *limit, *used, *inactive_files, *active_files;
};
constexpr Version kVersion1 = {.limit = "memory.limit_in_bytes",
                               .used = "memory.usage_in_bytes",
                               .inactive_files = "total_inactive_file",
                               .active_files = "total_active_file"};
constexpr Version kVersion2 = {.limit = "memory.max",
                               .used = "memory.current",
                               .inactive_files = "inactive_file",
                               .active_files = "active_file"};

/// A function of a group's folder. It returns nullopt if the group has no limit.
using OfGroup = std::function<std::optional<double>(const files::path&, const Version&)>;

std::optional<double> limit_of(const files::path& group, const Version& version) {
  return read_limit(group / version.limit);
}

/// The number after `name` in the line of the file that begins with `name`; 0 without such a line.
double read_named(const files::path& path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return std::strtod(line.c_str() + name.size(), nullptr);
  return 0;
}

/// The limit minus the memory in use. File caches do not count as in use, since the kernel drops
/// them when memory is needed.
std::optional<double> left_of(const files::path& group, const Version& version) {
  const auto limit = limit_of(group, version);
  if (!limit) return std::nullopt;
  const files::path statistics = group / "memory.stat";
  const double used = read_limit(group / version.used).value_or(0) -
                      read_named(statistics, version.inactive_files) -
                      read_named(statistics, version.active_files);
  return std::max(0.0, *limit - std::max(0.0, used));
}

/// The smallest value of the group's folder below `mount` and of its parents up to `mount`.
std::optional<double> smallest_upwards(const files::path& mount, files::path group,
                                       const Version& version, const OfGroup& value) {
  std::optional<double> smallest;
  for (group = group.relative_path();; group = group.parent_path()) {
    // In a container the path may be the host's and not exist. The mount itself is then the group.
    if (const auto found = value(mount / group, version))
      smallest = std::min(*found, smallest.value_or(*found));
    if (group.empty()) return smallest;
  }
}

bool names_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

/// The smallest value over all memory groups of this process.
std::optional<double> smallest_of_groups(const files::path& root, const OfGroup& value) {
  const files::path mount = root / "sys/fs/cgroup";
  std::optional<double> smallest;
  std::ifstream in(root / "proc/self/cgroup");
  // Version 2 has lines "0::/a/b", version 1 has lines "9:memory:/a/b".
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    std::optional<double> found;
    if (controllers.empty())
      found = smallest_upwards(mount, group, kVersion2, value);
    else if (names_memory(controllers))
      found = smallest_upwards(mount / "memory", group, kVersion1, value);
    if (found) smallest = std::min(*found, smallest.value_or(*found));
  }
  return smallest;
}

}  // namespace

std::optional<double> cgroup_memory_limit(const std::filesystem::path& root) {
  return smallest_of_groups(root, limit_of);
}

double usable_memory_bytes() {
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup_memory_limit().value_or(machine));
}

double available_memory_bytes(const std::filesystem::path& root) {
  const double kibibytes = read_named(root / "proc/meminfo", "MemAvailable:");
  const double machine = kibibytes > 0 ? 1024 * kibibytes : usable_memory_bytes();
  return std::min(machine, smallest_of_groups(root, left_of).value_or(machine));
}

}  // namespace penstock
