#include "penstock/base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace penstock {
namespace {

namespace files = std::filesystem;

/// The number in the file; nothing where it is absent or "max".
std::optional<double> read_limit(const files::path& path) {
  std::ifstream in(path);
  double value = 0;
  if (in >> value && value > 0) return value;
  return std::nullopt;
}

/// The smallest limit of the folder `group` below `mount` and of those above it, up to `mount`.
std::optional<double> smallest_limit(const files::path& mount, files::path group,
                                     const char* name) {
  std::optional<double> smallest;
  for (group = group.relative_path();; group = group.parent_path()) {
    // In a container the path can be the host's and lead nowhere; the mount itself is right then.
    if (const auto limit = read_limit(mount / group / name))
      smallest = std::min(*limit, smallest.value_or(*limit));
    if (group.empty()) return smallest;
  }
}

bool names_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::optional<double> cgroup_memory_limit(const files::path& root) {
  const files::path mount = root / "sys/fs/cgroup";
  std::optional<double> smallest;
  std::ifstream in(root / "proc/self/cgroup");
  // "0::/a/b" of version 2, "9:memory:/a/b" of version 1.
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::optional<double> limit;
    if (controllers.empty())
      limit = smallest_limit(mount, line.substr(second + 1), "memory.max");
    else if (names_memory(controllers))
      limit = smallest_limit(mount / "memory", line.substr(second + 1), "memory.limit_in_bytes");
    if (limit) smallest = std::min(*limit, smallest.value_or(*limit));
  }
  return smallest;
}

double usable_memory_bytes() {
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup_memory_limit().value_or(machine));
}

}  // namespace penstock
