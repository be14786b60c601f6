// `--processes N`: this program again, N times on this machine, as the ranks of one run. It starts
// them, hands signals on, and sees to it that none outlives the others.
#pragma once

#include <string>

namespace penstock {

/// What a rank ends with when it lost another one, whose end the launcher reports.
inline constexpr int kLostRankCode = 4;

/// Runs the command line of this process without `--processes` in so many processes and returns
/// their exit code. They end with this process, however it ends; where one dies, the others end
/// within half a minute, and one line on stderr names its rank, host and the last complete step.
/// @param run_directory  whose metrics.jsonl has that step
int launch_processes(int processes, const std::string& run_directory);

}  // namespace penstock
