// Timeouts and checks of a group of ranks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace penstock::dist {

class Transport;

struct GroupOptions {
  std::chrono::seconds start_timeout{120};  ///< limit for all ranks to arrive
  std::chrono::seconds timeout{1800};       ///< limit for a late rank in an operation
  /// A rank without a heartbeat for this long counts as lost, also between operations: its process
  /// or its machine has stopped. 0: never.
  std::chrono::seconds silence{25};
  /// Called while the start waits for ranks: on rank 0, or on rank 1 if rank 0 is missing.
  /// `waiting_after` is the time before the first call, `waiting_every` the time between calls.
  std::function<void(const std::string& missing)> waiting = nullptr;
  std::chrono::milliseconds waiting_after{5000}, waiting_every{30000};
  /// Whether ranks of one machine exchange large data through shared memory, and have
  /// ProcessGroup::shared_bytes().
  bool shared_memory = true;
  /// Compares operation, type and shape over all ranks before each operation. This costs another
  /// operation. If ranks differ, they get an Error that names them; without the check the process
  /// would be terminated.
  bool check = false;
  /// Wraps the transport of the group, and of each group split from it, in another one, for example
  /// one that records its traffic. Called with the group's title ("world", then "world/data=2"),
  /// this process's rank in the group, and the group's transport.
  std::function<std::shared_ptr<Transport>(const std::string& title, int rank,
                                           std::shared_ptr<Transport> transport)>
      wrap = nullptr;
};

}  // namespace penstock::dist
