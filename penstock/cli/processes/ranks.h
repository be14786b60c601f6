// A command's part as one rank of several processes.
#pragma once

#include <chrono>
#include <functional>

#include "penstock/dist/group.h"

namespace penstock {

/// The exit code of a rank that lost another rank. The launcher reports the other rank's end.
inline constexpr int kLostRankCode = 4;

/// Throws Error unless PENSTOCK_START_SECONDS and PENSTOCK_SILENT_SECONDS have values that
/// join_ranks() takes.
void check_waiting_times();

/// Joins the group of ranks that this rank was started with. Prints which ranks are missing, unless
/// `quiet`. PENSTOCK_START_SECONDS and PENSTOCK_SILENT_SECONDS, if they are set, replace
/// GroupOptions::start_timeout and silence.
/// @param timeout  the longest wait for a rank that is late in an operation
dist::ProcessGroup join_ranks(const dist::Identity& identity, std::chrono::seconds timeout,
                              bool quiet);

/// Runs `work` and returns its exit code. If another rank's failure ends `work`, returns the exit
/// code for that. This rank's own failure is rethrown.
int exit_code_of_rank(const dist::Identity& identity, const std::function<int()>& work);

}  // namespace penstock
