// Free space on a disk. Free memory is in memory.h.
#pragma once

#include <filesystem>

namespace penstock {

/// Bytes that a new file at `path` could take: the space that is free for this user on the disk of
/// the nearest existing folder above `path`. Infinity if the system does not say.
double free_disk_bytes(const std::filesystem::path& path);

}  // namespace penstock
