// What a command that several processes share does as one of them.
#pragma once

#include <chrono>
#include <functional>

#include "penstock/dist/group.h"

namespace penstock {

/// What a rank ends with when it lost another one, whose end the launcher reports.
inline constexpr int kLostRankCode = 4;

/// The ranks that this one is started with. Which are missing is said, unless it is quiet. A rank
/// counts as lost that was silent for GroupOptions::silence, or PENSTOCK_SILENT_SECONDS.
/// @param timeout  for a rank that is late in an operation
dist::ProcessGroup join_ranks(const dist::Identity& identity, std::chrono::seconds timeout,
                              bool quiet);

/// What `work` returns; the exit code of a rank that another one's failure ends. A failure of its
/// own is thrown on.
int exit_code_of_rank(const dist::Identity& identity, const std::function<int()>& work);

}  // namespace penstock
