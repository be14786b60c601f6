// Gives pieces of work to ranks as they become free. The caller defines the pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "penstock/dist/group.h"
#include "penstock/dist/group_table.h"
#include "penstock/dist/key_server.h"

namespace penstock::dist {

/// Gives each number from 0 to count − 1 to one rank, in the order of the requests. Rank 0 hosts
/// the counter. REQUIRES: its WorkQueue outlives the others.
class WorkQueue {
 public:
  /// Every rank of the group constructs it.
  WorkQueue(const ProcessGroup& group, std::int64_t count);
  /// The next number, or nothing if all have been given out. Any rank may call it at any time.
  /// Throws LostRank if rank 0 is gone.
  std::optional<std::int64_t> next();
  /// Ends the queue; no more numbers are given out.
  void close();

 private:
  /// Adds to the counter in the table. Throws LostRank.
  std::int64_t add(std::int64_t value);

  std::int64_t count_ = 0, taken_ = 0;  // taken_: used with one process
  std::string keeper_name_;
  std::shared_ptr<GroupTable> ranks_;
  std::optional<KeyServer> server_;
  std::unique_ptr<KeyClient> table_;
};

}  // namespace penstock::dist
