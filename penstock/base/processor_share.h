// Whether other programs keep this one from the processor.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "penstock/base/progress.h"
#include "penstock/base/threads.h"

namespace penstock {

/// What the threads of this process got of the processor time that they were ready to use:
///   time on a processor / (time on a processor + time in the queue for one),
/// from /proc/self/task/*/schedstat. Threads that sleep count for nothing.
class ProcessorShare {
 public:
  /// Begins to look.  @param tasks  stands for /proc/self/task
  explicit ProcessorShare(std::filesystem::path tasks = "/proc/self/task");

  /// The share since the last look that gave one, or since the beginning; nothing where less than a
  /// tenth of a second of either kind of time has passed, or where the system does not tell.
  std::optional<double> look();

 private:
  struct Times {
    std::uint64_t running = 0, waiting = 0;  // nanoseconds
  };
  std::map<std::string, Times> read() const;  // by thread

  std::filesystem::path tasks_;
  std::map<std::string, Times> last_;
};

/// "other programs use the processor: 41 % of 2 cores left" for a share below three quarters, else
/// nothing. A line without room for it shortens it first, to "CPU 41%", and leaves that away last.
/// More threads than cores wait for each other, of which nothing is said.
std::optional<ProgressField> busy_field(std::optional<double> share, int threads,
                                        int cores = physical_cores());

}  // namespace penstock
