// Whether the ranks of a run see the same files.
#pragma once

#include <filesystem>
#include <string>

#include "penstock/base/file_system.h"
#include "penstock/dist/group.h"

namespace penstock {

/// Asks all ranks whether they see, and can write, what rank 0 has in that directory. Every rank
/// calls it; the directory counts on rank 0, where it exists. Throws, as check_none_failed(), where
/// rank 0 cannot write there.
/// @return the name of the first rank that does not, or ""
std::string first_rank_without(const dist::ProcessGroup& group,
                               const std::filesystem::path& directory, FileSystem& files);

}  // namespace penstock
