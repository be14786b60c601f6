#include "penstock/base/disk_space.h"

#include <limits>
#include <system_error>

#include "penstock/base/file_system.h"
#include "penstock/base/links.h"

namespace penstock {

double free_disk_bytes(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::path folder = parent_directory(followed(path));
  while (!std::filesystem::exists(folder, code) && folder != parent_directory(folder))
    folder = parent_directory(folder);
  const auto space = std::filesystem::space(folder, code);
  // Some file systems, for example FUSE, report no sizes.
  const bool unknown = code || space.capacity == 0;
  return unknown ? std::numeric_limits<double>::infinity() : static_cast<double>(space.available);
}

}  // namespace penstock
