// Work that ranks take piece by piece, as they become free. What a piece is, is the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "penstock/dist/group.h"
#include "penstock/dist/group_table.h"
#include "penstock/dist/key_server.h"

namespace penstock::dist {

/// Gives each number from 0 to count − 1 to the one rank that asks for it first. Rank 0 keeps the
/// count; it lets go of its Deal only after the others have.
class Deal {
 public:
  /// Every rank of the group calls it.
  Deal(const ProcessGroup& group, std::int64_t count);
  /// The next number, or nothing where all are given out. Any rank, at any time. Throws LostRank
  /// where rank 0 is gone.
  std::optional<std::int64_t> next();
  /// Nothing is given out any more.
  void close();

 private:
  /// Of the table. Throws LostRank.
  std::int64_t add(std::int64_t value);

  std::int64_t count_ = 0, taken_ = 0;  // taken: with one process
  std::string keeper_;
  std::shared_ptr<GroupTable> ranks_;
  std::optional<KeyServer> server_;
  std::unique_ptr<KeyClient> table_;
};

}  // namespace penstock::dist
