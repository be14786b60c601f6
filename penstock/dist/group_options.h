// Timeouts and checks of a group of ranks.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace penstock::dist {

struct GroupOptions {
  std::chrono::seconds start_timeout{120};  ///< for all ranks to arrive
  std::chrono::seconds timeout{1800};       ///< for a rank that is late in an operation
  /// A rank without a heartbeat for this long counts as lost, also between operations: its process
  /// or its machine has stopped. 0: never.
  std::chrono::seconds silence{25};
  /// Told while ranks are waited for at the start, on rank 0 and, where that one is missing, on
  /// rank 1; and how long until the first time and between.
  std::function<void(const std::string& missing)> waiting = nullptr;
  std::chrono::milliseconds waiting_after{5000}, waiting_every{30000};
  /// Compares kinds, types and shapes of all ranks before each operation, which takes another one:
  /// ranks that differ get an Error that names them, where otherwise the process would be ended.
  bool check = false;
};

}  // namespace penstock::dist
