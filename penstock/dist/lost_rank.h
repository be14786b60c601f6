// What a rank throws where it cannot go on with the others. Who finds out is group_table.h's and
// heartbeat.h's.
#pragma once

#include <exception>
#include <string>

#include "penstock/base/error.h"

namespace penstock::dist {

/// The connection to another rank is gone, or it did not come in time. The group cannot be used any
/// more; what the message names is this rank and the operation.
class LostRank : public Error {
 public:
  using Error::Error;
};

/// This rank itself failed in the middle of operations that others wait in, who lose it. The
/// message names it and says why.
class FailedRank : public LostRank {
 public:
  FailedRank(const std::string& name, const std::exception& error);
  FailedRank(const FailedRank& failed, const std::string& more) : LostRank(failed.what() + more) {}
};

}  // namespace penstock::dist
