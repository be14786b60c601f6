// How much memory a program may use here. How much it does use is ops/machine/machine.h's.
#pragma once

#include <filesystem>
#include <optional>

namespace penstock {

/// The smallest memory limit, in bytes, of the control groups that this process is in: `memory.max`
/// (version 2) and `memory.limit_in_bytes` (version 1) of its group and those above it, as far as
/// they are visible; nothing where none is set. `root` stands for "/".
std::optional<double> cgroup_memory_limit(const std::filesystem::path& root = "/");

/// Bytes of memory that this process may use: the machine's, or the control groups' limit where
/// that is less.
double usable_memory_bytes();

/// Bytes that this process can still take now: what the system calls available (free, or held by
/// caches of files alone; swap does not count), or what its control groups leave of their limits
/// where that is less. `root` stands for "/".
double available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace penstock
