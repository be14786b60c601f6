// Measures how much other programs take processor time from this one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "penstock/base/progress.h"
#include "penstock/base/threads.h"

namespace penstock {

/// The share of their ready time in which this process's threads ran on a processor:
///   time on a processor / (time on a processor + time in the queue for one),
/// from /proc/self/task/*/schedstat. Sleeping time does not count.
class ProcessorShare {
 public:
  /// Starts the measurement.  @param tasks  stands for /proc/self/task
  explicit ProcessorShare(std::filesystem::path tasks = "/proc/self/task");

  /// The share since the last call that returned one, or since the start. Returns nothing if
  /// running and waiting times together are below a tenth of a second, or if the system does not
  /// report them.
  std::optional<double> look();

 private:
  struct Times {
    std::uint64_t running = 0, waiting = 0;  // nanoseconds
  };
  std::map<std::string, Times> read() const;  // by thread

  std::filesystem::path tasks_;
  std::map<std::string, Times> last_;
};

/// The field "other programs use the processor: 41 % of 2 cores left" for a share below three
/// quarters, else nothing. In a narrow line it is the first field to be shortened, to "CPU 41%",
/// and the last to be dropped. Returns nothing with more threads than cores, since then the threads
/// wait for each other.
std::optional<ProgressField> busy_field(std::optional<double> share, int threads,
                                        int cores = physical_cores());

}  // namespace penstock
