// The memory that a program may use. ops/machine/machine.h has the memory that it does use.
#pragma once

#include <filesystem>
#include <optional>

namespace penstock {

/// The smallest memory limit, in bytes, of this process's control groups; nothing if no limit is
/// set. Reads `memory.max` (version 2) and `memory.limit_in_bytes` (version 1) of its group and of
/// the visible groups above it. `root` stands for "/".
std::optional<double> cgroup_memory_limit(const std::filesystem::path& root = "/");

/// Bytes of memory that this process may use: the smaller of the machine's memory and the control
/// groups' limit.
double usable_memory_bytes();

/// Bytes of memory that this process can still take now: the smaller of the system's available
/// memory and the rest of its control groups' limits. Available memory is free or holds only caches
/// of files; swap does not count. `root` stands for "/".
double available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace penstock
