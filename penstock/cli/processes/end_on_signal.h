// Ends commands that have nothing to save at once on a signal, and prints a line that says so.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/train/interrupt.h"

namespace penstock {

/// The messages of commands that write their results at the end, and of commands whose unfinished
/// results are removed.
inline constexpr const char* kNothingWritten = "interrupted; nothing was written";
inline constexpr const char* kUnfinishedRemoved = "interrupted; what was not finished is removed";

/// While the object is alive and armed, SIGINT, SIGTERM and SIGHUP end the process at once with
/// `message` on stderr and exit code 130. Only one object may live at a time.
/// @param unfinished  files or directories to remove before the process ends
class EndOnSignal {
 public:
  explicit EndOnSignal(std::string message, std::vector<std::filesystem::path> unfinished = {});
  /// From this call on, signals no longer end the process.
  void disarm();

 private:
  void watch(const std::stop_token& stop);

  InterruptGuard guard_;
  std::string message_;
  std::vector<std::filesystem::path> unfinished_;
  std::mutex mutex_;
  bool armed_ = true;
  std::jthread watcher_;  // last: it uses the other members
};

}  // namespace penstock
