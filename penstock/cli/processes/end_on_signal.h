// For commands that have nothing to save: a signal ends them at once, with a line that says so.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/train/interrupt.h"

namespace penstock {

/// While alive and armed, SIGINT, SIGTERM and SIGHUP end the process with `message` on stderr and
/// exit code 130, whatever it is computing. One at a time.
/// @param unfinished  files or directories that are removed first
class EndOnSignal {
 public:
  explicit EndOnSignal(std::string message, std::vector<std::filesystem::path> unfinished = {});
  /// From here on a signal is too late: what was begun is carried through.
  void disarm();

 private:
  void watch(const std::stop_token& stop);

  InterruptGuard guard_;
  std::string message_;
  std::vector<std::filesystem::path> unfinished_;
  std::mutex mutex_;
  bool armed_ = true;
  std::jthread watcher_;  // last: it uses the others
};

}  // namespace penstock
