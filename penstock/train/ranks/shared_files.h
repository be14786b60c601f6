// Checks whether the ranks of a run see the same files.
#pragma once

#include <filesystem>
#include <string>

#include "penstock/base/file_system.h"
#include "penstock/dist/group.h"

namespace penstock {

/// Checks whether all ranks see rank 0's files in a directory and can write there. Every rank calls
/// it. Throws, as check_none_failed(), if rank 0 cannot write there.
/// @param directory  read on rank 0 only.  REQUIRES: it exists there.
/// @return the name of the first rank that does not see the files or cannot write, or ""
std::string first_rank_without(const dist::ProcessGroup& group,
                               const std::filesystem::path& directory, FileSystem& files);

}  // namespace penstock
