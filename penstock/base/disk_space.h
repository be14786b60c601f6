// How much a disk still takes. How much memory is free is memory.h's.
#pragma once

#include <filesystem>

namespace penstock {

/// Bytes that a file made at `path` could take: what is free for this user on the disk of the
/// nearest folder above it that is there. Infinity where the system does not say.
double free_disk_bytes(const std::filesystem::path& path);

}  // namespace penstock
