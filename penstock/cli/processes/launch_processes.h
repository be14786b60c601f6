// `--processes N`: this program again, N times on this machine, as the ranks of one run. It starts
// them, hands signals on, and sees to it that none outlives the others.
#pragma once

#include <functional>
#include <string>

namespace penstock {

/// What is said of the work where a rank is lost.
struct LaunchedWork {
  std::function<std::string()> when;     ///< how far it was: "after step 12"
  std::function<std::string()> goes_on;  ///< what the user does next
};
/// Of a training: by its metrics.jsonl and its checkpoints.
LaunchedWork launched_run(const std::string& run_directory);

/// Throws Error unless each of so many processes can read the file by itself.
/// @param what  "recipe"
void check_each_can_read(const std::string& path, int processes, const std::string& what);

/// Runs the command line of this process without `--processes` in so many processes and returns
/// their exit code. They end with this process, however it ends; where one dies, the others end
/// within half a minute, and one line on stderr names its rank, host and how far the work was.
int launch_processes(int processes, const LaunchedWork& work);

}  // namespace penstock
