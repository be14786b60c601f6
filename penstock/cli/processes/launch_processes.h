// `--processes N`: starts this program N times on this machine, as the ranks of one run. The
// launcher forwards signals to the ranks and makes sure that no rank outlives the others.
#pragma once

#include <functional>
#include <string>

#include "penstock/dist/identity.h"

namespace penstock {

/// The text about the work in the message that a rank is lost.
struct LaunchedWork {
  std::function<std::string()> when;     ///< the progress of the work: "after step 12"
  std::function<std::string()> goes_on;  ///< the user's next command
};
/// The text for a training run, from its metrics.jsonl and its checkpoints.
LaunchedWork launched_run(const std::string& run_directory);

/// Throws Error if `--processes` is given, but a launcher already started this process as one of
/// several.
/// @param processes  0: not given
void check_one_launcher(int processes, const dist::Identity& identity);

/// Throws Error unless each of `processes` processes can read the file by itself.
/// @param what  the file's kind in the error, such as "recipe"
void check_each_can_read(const std::string& path, int processes, const std::string& what);

/// Runs this process's command line, without `--processes`, in `processes` processes and returns
/// their exit code. The processes end with this process, however it ends. If a process dies, the
/// others end within half a minute, and a line on stderr names its rank, its host and the progress
/// of the work.
int launch_processes(int processes, const LaunchedWork& work);

}  // namespace penstock
