// Free space on a disk. memory.h has free memory.
#pragma once

#include <filesystem>

namespace penstock {

/// The largest size in bytes of a new file at `path`: the free space for this user on the disk of
/// the nearest existing folder above `path`. Infinity if the system does not report it.
double free_disk_bytes(const std::filesystem::path& path);

}  // namespace penstock
